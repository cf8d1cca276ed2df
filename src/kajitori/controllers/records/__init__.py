"""Records of members that outlive their Pods: logs, results, memory peaks. Begin with `logs.LogKeeper`."""
