"""What members print: from Pods, and from the store once the Pods are gone."""
