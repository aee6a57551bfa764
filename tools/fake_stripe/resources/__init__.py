"""The resources of the API, a module for each family: the parameters of its methods, its answers and its routes."""
