"""The cluster in the types of `core`. `mirror` is the copy of Nodes, Pods and Runs in memory; `view.ClusterView`
answers questions about it in `core`'s terms, with the help of `nodes`, `runs` and `queue`; `platform` reads and writes
Kajitori's own objects."""
