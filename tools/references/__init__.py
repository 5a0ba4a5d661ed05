"""Reference pages of the documentation that follow from the code.

Commands and routes are files in the repository (`__main__`); Python names are made with the site.
"""
