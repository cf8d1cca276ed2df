"""The hub and NAT hosts, through which researchers reach clusters: nftables rules, routes, and the probes of
`kaji network check`. Begin with `render`."""
