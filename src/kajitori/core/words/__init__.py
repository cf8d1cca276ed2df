"""Parsing and formatting of small texts that all parts share: quantities, times, names, images, selectors, CEL.

quantities, times                      amounts of memory and CPU, durations, RFC 3339
names, run_names, first_step           names of labels, annotations and Pods; of runs; of the first step's files
image_names, selectors, cel            images, label and field selectors, and expressions, as Kubernetes reads them
texts, suggestions                     rules for names, with Kubernetes' messages; what a misspelled name may mean
nodes                                  node lists, taints, and the amounts of a Pod
"""
