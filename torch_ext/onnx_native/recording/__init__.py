"""Captures natively: the module runs once, and the C++ recorder notes what it calls."""
