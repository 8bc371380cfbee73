"""The flow of a release: from a spec to a published bundle."""
