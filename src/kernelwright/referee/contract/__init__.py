"""The judge of Python callables of anyone: run in processes that are not trusted, seen from one that is."""
