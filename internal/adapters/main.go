// Command adapters writes the part that all adapters have in common, limits.go, into the directory of each: the
// constructors named after the algorithms, and the names of package guard that policies need. Each adapter has it run by
// go generate:
//
//	//go:generate go run github.com/weir-go/ratelimit/internal/adapters
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// file is the file that every adapter has.
const file = "limits.go"

//go:embed limits.go.tmpl
var text string

func main() {
	root, err := moduleRoot()
	if err == nil {
		var source []byte
		if source, err = generate(filepath.Join(root, "guard")); err == nil {
			err = os.WriteFile(file, source, 0o600)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "adapters:", err)
		os.Exit(1)
	}
}

// moduleRoot returns the directory of the go.mod above the working directory.
func moduleRoot() (string, error) {
	directory, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(directory, "go.mod")); err == nil {
			return directory, nil
		}
		if filepath.Dir(directory) == directory {
			return "", errors.New("there is no go.mod above the working directory")
		}
		directory = filepath.Dir(directory)
	}
}

// generate returns the source of the common file, with the fields of guard's types as that directory has them.
func generate(guard string) ([]byte, error) {
	t, err := template.New(file).Funcs(template.FuncMap{
		"fields": func(name string) (string, error) { return fields(guard, name) },
	}).Parse(text)
	if err != nil {
		return nil, err
	}
	var source bytes.Buffer
	if err := t.Execute(&source, nil); err != nil {
		return nil, err
	}
	return format.Source(source.Bytes())
}

// fields returns a list of the fields of a struct type in a directory, as lines of a comment: the name, and the first
// sentence about it.
func fields(directory, name string) (string, error) {
	paths, err := filepath.Glob(filepath.Join(directory, "*.go"))
	if err != nil {
		return "", err
	}
	for _, path := range paths {
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return "", err
		}
		if list := listed(structOf(parsed, name)); list != "" {
			return list, nil
		}
	}
	return "", fmt.Errorf("%s has no type %s with fields", directory, name)
}

// structOf returns the struct type of a name in a file, or nil.
func structOf(file *ast.File, name string) *ast.StructType {
	for _, declared := range file.Decls {
		types, ok := declared.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range types.Specs {
			if named, ok := spec.(*ast.TypeSpec); ok && named.Name.Name == name {
				found, _ := named.Type.(*ast.StructType)
				return found
			}
		}
	}
	return nil
}

// listed returns the list of the exported fields of a struct type, or "" for nil.
func listed(of *ast.StructType) string {
	if of == nil {
		return ""
	}
	var list strings.Builder
	for _, field := range of.Fields.List {
		for _, own := range field.Names {
			if own.IsExported() {
				list.WriteString(item(sentence(field.Doc.Text())))
			}
		}
	}
	return strings.TrimSuffix(list.String(), "\n")
}

// sentence returns the first sentence of a comment, without links.
func sentence(comment string) string {
	comment = strings.NewReplacer("\n", " ", "[", "", "]", "").Replace(comment)
	if end := strings.Index(comment, ". "); end >= 0 {
		comment = comment[:end+1]
	}
	return strings.TrimSpace(comment)
}

// width is how long the lines of a list are.
const width = 115

// item returns a sentence as an item of a list in a comment.
func item(sentence string) string {
	var lines strings.Builder
	line := "//   -"
	for word := range strings.FieldsSeq(sentence) {
		if len(line)+1+len(word) > width {
			lines.WriteString(line + "\n")
			line = "//    "
		}
		line += " " + word
	}
	return lines.String() + line + "\n"
}
