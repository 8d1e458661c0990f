#!/usr/bin/env python3
"""count_states.py QUANT.JSON -- how many endpoints are in each state, most first."""
import collections
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    states = collections.Counter(tqc["state"] for tqc in json.load(file)["tqcs"])
for state, count in states.most_common():
    print(f"    {count:5d}  {state}")
