"""The rules of money and time: how objects are made and change, apart from the API and pages that cause it."""
