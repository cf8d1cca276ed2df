"""The ways in which the kernel can count packets: by interface, by address or by iptables rules. Begin with
`engine.Engine`."""
