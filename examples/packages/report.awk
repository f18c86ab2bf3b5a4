# Three tables (totals, sections, largest packages) to one HTML page with an inline SVG bar chart.
function text(s) {
  gsub(/&/, "\\&amp;", s)
  gsub(/</, "\\&lt;", s)
  gsub(/>/, "\\&gt;", s)
  return s
}
BEGIN { FS = "\t" }
FNR == 1 { file++ }
file == 1 && $1 == "total" { total = $2 }
file == 1 && $1 != "total" { architectures = architectures sprintf(" %s: %d.", text($1), $2) }
file == 2 && FNR <= 20 {
  name[FNR] = text($1)
  count[FNR] = $2
  kib[FNR] = $3
  rows = FNR
  if ($3 > most) most = $3
}
file == 3 { list = list sprintf("<tr><td>%s</td><td>%.1f</td></tr>\n", text($1), $2 / 1024) }
END {
  print "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
  print "<title>Installed packages</title>"
  print "<style>body{font-family:sans-serif;margin:2em}td{padding-right:2em}</style></head><body>"
  printf "<h1>Installed packages</h1>\n<p>%.1f MiB in all. Packages by architecture:%s</p>\n",
    total / 1024, architectures
  printf "<h2>Sections by size</h2>\n<svg width=\"800\" height=\"%d\" role=\"img\">\n", rows * 24
  for (i = 1; i <= rows; i++) {
    y = (i - 1) * 24
    width = most > 0 ? 480 * kib[i] / most : 0
    printf "<text x=\"0\" y=\"%d\" font-size=\"14\">%s</text>", y + 16, name[i]
    printf "<rect x=\"150\" y=\"%d\" width=\"%.1f\" height=\"18\" fill=\"#369\"/>", y + 2, width
    printf "<text x=\"%.1f\" y=\"%d\" font-size=\"12\">%.1f MiB in %d</text>\n", 156 + width,
      y + 16, kib[i] / 1024, count[i]
  }
  print "</svg>\n<h2>Largest packages</h2>\n<table><tr><th>Package</th><th>MiB</th></tr>"
  printf "%s</table>\n</body></html>\n", list
}
