# SPDX-License-Identifier: Apache-2.0
"""Makes a case that fails smaller: fewer data sets, fewer results, and inputs in place of what nodes compute."""

from grow import SETS, Case


def without(case, position):
    """CASE with the results of a node as inputs, of dims that are numbers where all data sets have the same. None: no node is left."""
    _, _, outs, _ = case.nodes[position]
    nodes = case.nodes[:position] + case.nodes[position + 1:]
    inputs = list(case.inputs)
    for name in filter(None, outs):
        v = case.by_name.get(name)
        if v is None:
            return None
        dims = []
        for i in range(v.rank):
            sizes = v.sizes(i)
            symbol = next((d for w, have in inputs for j, d in enumerate(have) if isinstance(d, str) and w.sizes(j) == sizes), f"R{name}_{i}")
            dims.append(sizes[0] if len(set(sizes)) == 1 else symbol)
        inputs.append((v, dims))
    results = [v for v in case.results if v.name not in outs]
    smaller = Case(nodes, inputs, case.constants, results, case.sets).pruned() if results else None
    if smaller:
        smaller.by_name = case.by_name
    return smaller if smaller and smaller.nodes else None


def reduce(case, by_name, fails, limit=60):
    """The smallest case found for which FAILS says that it still does, after LIMIT tries at most."""
    case.by_name = by_name
    for k in range(SETS):
        tries = Case(case.nodes, case.inputs, case.constants, case.results, [k])
        tries.by_name = by_name
        if fails(tries):
            case = tries
            break
    for v in list(case.results):
        tries = Case(case.nodes, case.inputs, case.constants, [v], case.sets).pruned()
        tries.by_name = by_name
        if len(case.results) > 1 and fails(tries):
            case = tries
            break
    again = True
    while again and limit > 0:
        again = False
        for position in range(len(case.nodes)):
            smaller = without(case, position)
            limit -= 1
            if smaller and limit > 0 and fails(smaller):
                case, again = smaller, True
                break
    return case
