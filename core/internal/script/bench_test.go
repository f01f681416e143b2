package script

import "testing"

// BenchmarkNew is how long the first call of a process waits until its script is there: that of one algorithm, and one with modules.
func BenchmarkNew(b *testing.B) {
	for does, of := range scripts() {
		b.Run(fileNameOf(does, of), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				newScript(does, of, false)
			}
		})
	}
}
