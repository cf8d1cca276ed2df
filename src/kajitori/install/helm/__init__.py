"""The Helm chart below `deploy/helm`, which is generated from the same renderer as `kaji install`. Begin with
`chart.chart`.

The objects are rendered from settings that have marks as texts and numbers. Each mark in the rendered objects is then
replaced by the expression for a value of the chart. A setting that switches something on or off becomes a condition
around a whole object or list entry.

    marks      the settings with marks as values
    templates  objects rendered from these settings, as templates of Helm
    secrets    certificates and keys that Helm itself creates
    chart      all files of the chart
"""
