"""The papers' experiments: each a small file, with its paper, its figures and its parameters in the docstring.

Every one shows the paper's method as printed, its corrected form, and dpspark's default, at the same epsilon and delta.
"""
