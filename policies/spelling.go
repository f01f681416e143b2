package policies

import "strings"

// likeliest returns the field that a misspelled one may mean, or "".
func likeliest(text string, known []field) string {
	letters := strings.NewReplacer("-", "", "_", "", " ", "")
	text = strings.ToLower(letters.Replace(text))
	likely, fewest := "", 3 // edits
	for _, f := range known {
		if n := edits(text, strings.ToLower(f.name)); n < min(fewest, len(f.name)/2) {
			likely, fewest = f.name, n
		}
	}
	return likely
}

// edits returns how many letters have to be added, left out or replaced to make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1) // how many make the first letters of b of those of a that have been seen
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
