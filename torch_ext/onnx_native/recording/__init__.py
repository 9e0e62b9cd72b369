"""the native capture: the module runs once, and the C++ recorder writes down what it calls."""
