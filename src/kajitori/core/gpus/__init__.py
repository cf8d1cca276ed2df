"""GPUs as devices of dynamic resource allocation: types, numbers, and how a Pod asks for them."""
