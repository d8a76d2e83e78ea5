package functions

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// writeCSV writes one record as RFC 4180 has it. What a spreadsheet would take
// for a formula is made text by an apostrophe before it: IDs and reasons come
// from outside.
func writeCSV(b *bytes.Buffer, cells []string) {
	for i, cell := range cells {
		if i > 0 {
			b.WriteByte(',')
		}
		cell = harmless(cell)
		if strings.ContainsAny(cell, "\",\r\n") || strings.TrimSpace(cell) != cell {
			cell = `"` + strings.ReplaceAll(cell, `"`, `""`) + `"`
		}
		b.WriteString(cell)
	}
	b.WriteString("\r\n")
}

// harmless is a cell that no spreadsheet takes for a formula: = + - @, their
// wide forms, and control characters may begin one, after spaces too.
func harmless(cell string) string {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(cell, " \u00a0\ufeff"))
	if cell != "" && (strings.ContainsRune("=+-@＝＋－＠", first) || unicode.IsControl(first)) {
		return "'" + cell
	}
	return cell
}
