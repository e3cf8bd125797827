"""Public price feeds, one module a cloud. Each yields listed prices; none of them writes anything."""
