package doctest

import (
	"encoding/json"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// row is a row of docs/options.md.
type row struct{ name, fallback, file string }

// optionRow finds a row: its name, its default, and its name in a file.
var optionRow = regexp.MustCompile("^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\| [^|]+ \\|$")

// optionRows returns the rows of docs/options.md by their names.
func optionRows(t *testing.T) map[string]row {
	t.Helper()
	rows := make(map[string]row)
	for line := range strings.Lines(at(t, "docs/options.md")) {
		if cells := optionRow.FindStringSubmatch(strings.TrimSpace(line)); cells != nil {
			if rows[cells[1]].name != "" {
				t.Errorf("docs/options.md has %s twice", cells[1])
			}
			rows[cells[1]] = row{cells[1], strings.TrimSpace(strings.ReplaceAll(cells[2], "`", "")), strings.Trim(cells[3], " `–")}
		} else if strings.HasPrefix(line, "| `") {
			t.Errorf("docs/options.md has a row that cannot be read: %s", line)
		}
	}
	return rows
}

// optionPackages are the packages whose options a program sets.
var optionPackages = []string{"core", "guard", "keyfuncs", "lists", "policies", "outbound", "jobs", "telemetry", "telemetry/offenders"}

// optionTypes are the types with fields that a program sets, besides those whose names end in Options.
var optionTypes = map[string][]string{"core": {"Ban", "Check", "Tolerance"}, "guard": {"Policy", "BanPolicy", "SettlePolicy", "QueuePolicy", "Lists"}, "outbound": {"Retry"}}

// sources returns the files of a package of the module, tests apart.
func sources(t *testing.T, directory string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(directory), "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("there is no code in %s: %v", directory, err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// exportedFields returns the names of the exported fields of a struct.
func exportedFields(of *ast.StructType) (names []string) {
	for _, field := range of.Fields.List {
		for _, name := range field.Names {
			if name.IsExported() {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// optionsIn returns the options that a package has: the functions that return one, and the fields of its structs of options.
func optionsIn(t *testing.T, directory string) (names []string) {
	prefix := directory[strings.LastIndexByte(directory, '/')+1:] + "."
	if directory == "guard" {
		prefix = "" // as the adapters call its types
	}
	for _, file := range sources(t, directory) {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil || !d.Name.IsExported() || d.Type.Results == nil {
					continue
				}
				if result, ok := d.Type.Results.List[0].Type.(*ast.Ident); ok && strings.HasSuffix(result.Name, "Option") {
					names = append(names, prefix+d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					spec, ok := spec.(*ast.TypeSpec)
					if !ok || !spec.Name.IsExported() || !strings.HasSuffix(spec.Name.Name, "Options") && !slices.Contains(optionTypes[directory], spec.Name.Name) {
						continue
					}
					if fields, ok := spec.Type.(*ast.StructType); ok {
						for _, field := range exportedFields(fields) {
							names = append(names, prefix+spec.Name.Name+"."+field)
						}
					}
				}
			}
		}
	}
	return names
}

// The table of options has every option of the code, and no other.
func TestOptionsAreListed(t *testing.T) {
	rows := optionRows(t)
	var known []string
	for _, directory := range optionPackages {
		found := optionsIn(t, directory)
		if len(found) == 0 {
			t.Errorf("package %s has no options", directory)
		}
		for _, name := range found {
			if rows[name].name == "" {
				t.Errorf("docs/options.md does not list %s", name)
			}
		}
		known = append(known, found...)
	}
	for name := range rows {
		if !slices.Contains(known, name) && !strings.HasPrefix(name, "policies.Policy.") {
			t.Errorf("docs/options.md lists %s, and there is no such option", name)
		}
	}
}

// The table has every field that a policy and the lists of a file may have, and no other.
func TestFieldsOfAFileAreListed(t *testing.T) {
	type object struct{ Properties map[string]json.RawMessage }
	var schema struct {
		Properties map[string]json.RawMessage
		Defs       map[string]object `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(at(t, "policies/schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	var lists object
	if err := json.Unmarshal(schema.Properties["lists"], &lists); err != nil {
		t.Fatal(err)
	}
	got := map[bool][]string{} // whether of a list
	for name, r := range optionRows(t) {
		if r.file != "" && r.file != "plans" && r.file != "lists" { // which stand beside the policies
			of := strings.HasPrefix(name, "Lists.")
			got[of] = append(got[of], r.file)
		}
	}
	for of, properties := range map[bool]map[string]json.RawMessage{false: schema.Defs["policy"].Properties, true: lists.Properties} {
		slices.Sort(got[of])
		if listed, want := slices.Compact(got[of]), slices.Sorted(maps.Keys(properties)); !slices.Equal(listed, want) {
			t.Errorf("the table lists %q, and a file may say %q", listed, want)
		}
	}
}

// defaults are the constants that the code takes where an option is not given. What a default consists of is listed in its order.
var defaults = map[string][]string{
	"core.WithPrefix":                  {"core/internal/redisstore.defaultPrefix"},
	"core.WithBudget":                  {"core/internal/redisstore.defaultBudget"},
	"core.WithInFlight":                {"core/internal/redisstore.defaultInFlight"},
	"core.WithQueue":                   {"core/internal/redisstore.defaultMostWaiting"},
	"core.WithBreaker":                 {"core/internal/redisstore.defaultBreakerFailures", "core/internal/redisstore.defaultBreakerPause"},
	"core.WithMaxKeys":                 {"core.defaultMaxKeys"},
	"core.Ban.Factor":                  {"core/internal/exact.defaultFactor"},
	"core.Ban.Longest":                 {"core/internal/exact.defaultLongest"},
	"core.Ban.Forget":                  {"core/internal/exact.defaultForget"},
	"Options.MaxKeyBody":               {"guard.defaultKeyBody"},
	"policies.Options.Every":           {"internal/poll.defaultEvery"},
	"lists.WatchOptions.Every":         {"internal/poll.defaultEvery"},
	"jobs.Options.LongestWait":         {"jobs.defaultWait"},
	"outbound.Options.LongestHoldBack": {"outbound.defaultHoldBack"},
	"outbound.Retry.Tokens":            {"outbound.defaultTokens"},
	"outbound.Retry.Ratio":             {"outbound.defaultRatio"},
	"outbound.Retry.Pause":             {"outbound.defaultPause"},
	"telemetry.Options.NearLimit":      {"telemetry.defaultNearLimit"},
	"telemetry.Options.MostPolicies":   {"telemetry.defaultMostPolicies"},
	"offenders.Options.Size":           {"telemetry/offenders.defaultSize"},
	"offenders.Options.HalfLife":       {"telemetry/offenders.defaultHalfLife"},
}

// The defaults in the table are those of the code, and each constant of the code that is a default has its row.
func TestDefaultsAreThoseOfTheCode(t *testing.T) {
	values := defaultValues(t)
	rows := optionRows(t)
	used := make(map[string]bool)
	for name, constants := range defaults {
		cells := strings.Split(rows[name].fallback, "; ")
		for i, c := range constants {
			used[c] = true
			if i >= len(cells) || values[c] == nil || !constant.Compare(read(cells[i]), token.EQL, constant.ToFloat(values[c])) && cells[i] != stringOf(values[c]) {
				t.Errorf("docs/options.md says of %s that its default is %q, and %s is %v", name, rows[name].fallback, c, values[c])
			}
		}
	}
	for c := range values {
		if !used[c] {
			t.Errorf("the constant %s is of no option in the table of this test", c)
		}
	}
}

func stringOf(v constant.Value) string {
	if v.Kind() == constant.String {
		return constant.StringVal(v)
	}
	return ""
}

// read returns the value that a cell says: a number, a time or bytes. A cell that says none of them is unequal to all.
func read(cell string) constant.Value {
	cell = strings.ReplaceAll(cell, ",", "")
	if days, ok := strings.CutSuffix(cell, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil {
			return constant.ToFloat(constant.MakeInt64(int64(n) * int64(24*time.Hour)))
		}
	}
	if n, ok := strings.CutSuffix(cell, " MiB"); ok {
		if n, err := strconv.Atoi(n); err == nil {
			return constant.ToFloat(constant.MakeInt64(int64(n) << 20))
		}
	}
	if d, err := time.ParseDuration(cell); err == nil {
		return constant.ToFloat(constant.MakeInt64(int64(d)))
	}
	if _, err := strconv.ParseFloat(cell, 64); err == nil {
		return constant.ToFloat(constant.MakeFromLiteral(cell, token.FLOAT, 0))
	}
	return constant.MakeFloat64(-1)
}

// defaultValues returns the constants whose names begin with default, of all packages that have defaults of options.
func defaultValues(t *testing.T) map[string]constant.Value {
	t.Helper()
	values := constantsOf(t, slices.Concat(optionPackages, []string{"core/internal/redisstore", "core/internal/exact", "internal/poll"}),
		func(name string) bool { return strings.HasPrefix(name, "default") })
	if len(values) < 15 {
		t.Fatalf("only %d defaults were found", len(values))
	}
	return values
}

// What pages say in words of how long something takes, and how many there are, is what the code does.
func TestPagesSayWhatTheCodeDoes(t *testing.T) {
	values := constantsOf(t, []string{"core", "core/internal/redisstore", "core/internal/denials", "core/internal/lease", "guard"},
		func(name string) bool {
			return strings.HasPrefix(name, "default") || slices.Contains([]string{"workRoom", "longestWork", "longestStaleness", "mostKeys", "remembered"}, name)
		})
	for _, c := range []struct {
		page, says, constant string
		value                int64
	}{
		{"README.md", "Redis has 100 ms to answer", "core/internal/redisstore.defaultBudget", int64(100 * time.Millisecond)},
		{"docs/quickstart.md", "does not answer within 100 ms", "core/internal/redisstore.defaultBudget", int64(100 * time.Millisecond)},
		{"docs/failures.md", "**a budget of 100 ms**", "core/internal/redisstore.defaultBudget", int64(100 * time.Millisecond)},
		{"docs/failures.md", "**After five failures in a row**", "core/internal/redisstore.defaultBreakerFailures", 5},
		{"docs/failures.md", "is not asked for half a second", "core/internal/redisstore.defaultBreakerPause", int64(500 * time.Millisecond)},
		{"docs/failures.md", "A process knows 100,000 keys", "guard.remembered", 100_000},
		{"docs/failures.md", "tried for two seconds from its first try", "core.longestWork", int64(2 * time.Second)},
		{"docs/failures.md", "65,536 may wait", "core.workRoom", 65_536},
		{"docs/failures.md", "noticed after ten seconds at the latest", "core/internal/denials.longestStaleness", int64(10 * time.Second)},
		{"docs/leases.md", "At most 65,536 keys are leased", "core/internal/lease.mostKeys", 65_536},
		{"docs/memory.md", "1,048,576 at most", "core.defaultMaxKeys", 1 << 20},
	} {
		if text := strings.Join(strings.Fields(at(t, c.page)), " "); !strings.Contains(text, c.says) {
			t.Errorf("%s does not say %q any more", c.page, c.says)
		}
		if values[c.constant] == nil || !constant.Compare(values[c.constant], token.EQL, constant.MakeInt64(c.value)) {
			t.Errorf("%s says %q, and %s is %v", c.page, c.says, c.constant, values[c.constant])
		}
	}
}

// constantsOf returns the constants of some packages that have a value of their own and a name that is wanted.
func constantsOf(t *testing.T, directories []string, wanted func(name string) bool) map[string]constant.Value {
	t.Helper()
	var names []string
	text := &strings.Builder{}
	text.WriteString("package p\nimport \"time\"\nvar _ time.Duration\n")
	for _, directory := range directories {
		for _, file := range sources(t, directory) {
			for _, d := range file.Decls {
				declared, ok := d.(*ast.GenDecl)
				if !ok || declared.Tok != token.CONST {
					continue
				}
				for _, spec := range declared.Specs {
					spec := spec.(*ast.ValueSpec)
					if !wanted(spec.Names[0].Name) || len(spec.Values) != 1 {
						continue
					}
					text.WriteString("const c" + strconv.Itoa(len(names)) + " = ")
					if err := printer.Fprint(text, token.NewFileSet(), spec.Values[0]); err != nil {
						t.Fatal(err)
					}
					text.WriteString("\n")
					names = append(names, directory+"."+spec.Names[0].Name)
				}
			}
		}
	}
	fset := compiled.set
	file, err := parser.ParseFile(fset, "defaults.go", text.String(), 0)
	if err != nil {
		t.Fatal(err)
	}
	config := types.Config{Importer: exports(t, []string{"time"})}
	p, err := config.Check("p", fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]constant.Value)
	for i, name := range names {
		values[name] = p.Scope().Lookup("c" + strconv.Itoa(i)).(*types.Const).Val()
	}
	return values
}

// A default of 0 or false is the zero value of its field, and numbers have a default that is a number.
func TestZeroDefaultsAreOfNumbers(t *testing.T) {
	rows := optionRows(t)
	said := map[string]string{ // what a zero means that is no zero
		"Options.Replicas": "1", "core.Check.Cost": "1", "core.Ban.First": "the window of Strikes", "core.Check.Mode": "core.Charge",
		"policies.Policy.Enforced": "all",
	}
	for _, directory := range optionPackages {
		prefix := directory[strings.LastIndexByte(directory, '/')+1:] + "."
		if directory == "guard" {
			prefix = ""
		}
		for _, file := range sources(t, directory) {
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				fields, ok := spec.Type.(*ast.StructType)
				if !ok {
					return true
				}
				for _, field := range fields.Fields.List {
					for _, name := range field.Names {
						full := prefix + spec.Name.Name + "." + name.Name
						r, listed := rows[full]
						if !listed || len(defaults[full]) > 0 {
							continue
						}
						want, sure := said[full]
						if !sure {
							want, sure = zeroOf(field.Type)
						}
						if got, _, _ := strings.Cut(r.fallback, ":"); sure && got != want {
							t.Errorf("docs/options.md says of %s that its default is %q, want %q", full, r.fallback, want)
						}
					}
				}
				return true
			})
		}
	}
}

// zeroOf returns how the table says the zero value of a type, if it is a number or a bool.
func zeroOf(of ast.Expr) (text string, ok bool) {
	switch of := of.(type) {
	case *ast.Ident:
		switch of.Name {
		case "bool":
			return "false", true
		case "int", "int64", "float64":
			return "0", true
		}
	case *ast.SelectorExpr:
		return "0", of.Sel.Name == "Duration"
	}
	return "", false
}
