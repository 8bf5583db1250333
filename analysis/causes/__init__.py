"""Tables of causes, one module a family of rules; there is no list beside the folder.

A module defines CAUSES, FIRST, CLUES and USUAL in the form that `analysis.attribution` has for the rules about losses.
Causes may be shared: a clue may name a cause of another module.
"""
