package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// report is everything that docs/benchmarks.md says.
type report struct {
	Date        string
	Profile     profile
	Machine     machine
	Highlights  []highlight
	Contenders  []contestant
	Comparisons []section
}

// contestant is a contender in the report's list.
type contestant struct{ Name, Algorithm, Note string }

// section is a comparison, written out.
type section struct {
	Title, Text string
	Plots       []image
	Head        []string
	Rows        [][]string
}

// image is a plot of a section.
type image struct{ File, Text string }

//go:embed report.md.tmpl
var reportText string

// reportTemplate is parsed when the program starts, so that a mistake in it shows.
var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"row": func(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" },
	"rule": func(cells []string) string {
		return "|---|" + strings.Repeat("---:|", len(cells)-1)
	},
}).Parse(reportText))

// newReport writes comparisons out.
func newReport(date time.Time, p profile, m machine, contenders []contender, comparisons []comparison) report {
	r := report{Date: date.Format(time.DateOnly), Profile: p, Machine: m, Highlights: highlights(comparisons)}
	for _, c := range contenders {
		r.Contenders = append(r.Contenders, contestant{c.name, c.algorithm, c.note})
	}
	for _, c := range comparisons {
		r.Comparisons = append(r.Comparisons, c.section())
	}
	return r
}

func (c comparison) section() section {
	s := section{Title: c.title, Text: c.text, Head: []string{""}}
	for _, p := range c.plots {
		s.Plots = append(s.Plots, image{p.name + ".svg", c.title + ": " + p.label + " relative to " + p.baseline})
	}
	for _, column := range c.columns {
		s.Head = append(s.Head, column.title+string(column.better))
	}
	for _, e := range c.entries {
		row := []string{e.name}
		if e.own {
			row[0] = "**" + e.name + "**"
		}
		for _, column := range c.columns {
			row = append(row, column.cell(e, c.entries))
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

// write writes the report as Markdown.
func (r report) write(w io.Writer) error {
	if err := reportTemplate.Execute(w, r); err != nil {
		return fmt.Errorf("bench: writing the report: %w", err)
	}
	return nil
}

// save writes the report and its plots into a directory: benchmarks.md, and
// benchmarks/ with a file for each plot.
func save(directory string, r report, comparisons []comparison) error {
	plots := filepath.Join(directory, "benchmarks")
	if err := os.MkdirAll(plots, 0o755); err != nil { //nolint:gosec // for everybody to read
		return fmt.Errorf("bench: %w", err)
	}
	for _, c := range comparisons {
		for _, p := range c.plots {
			draw := func(w io.Writer) error { return c.draw(p, w) }
			if err := saveTo(filepath.Join(plots, p.name+".svg"), draw); err != nil {
				return err
			}
		}
	}
	return saveTo(filepath.Join(directory, "benchmarks.md"), r.write)
}

func saveTo(path string, write func(io.Writer) error) (err error) {
	file, err := os.Create(path) //nolint:gosec // the directory is the caller's choice
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer func() {
		if failure := file.Close(); err == nil && failure != nil {
			err = fmt.Errorf("bench: %w", failure)
		}
	}()
	return write(file)
}
