"""The guarantee of a release, recomputed from its manifest alone: bounds, sensitivity, scales, cost, budget.

The other way round than a release goes: nothing here calibrates. A stranger's manifest is read as numbers, never as code.
"""
