/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opset upgrades: every node of the standard domain is brought to the form of opset 28 as it is
 * imported, so the rest of the compiler knows one form of each op.
 *
 * A rule is a row (op, the version that ended the old form, function) in upgrade.c. Types are not
 * known yet, so a rule never asks for a rank or an element type: it says what it needs with Shape,
 * CastLike and Reshape, and shape inference makes that vanish.
 */
#ifndef FRONTEND_UPGRADE_H
#define FRONTEND_UPGRADE_H

#include "ir/graph.h"

enum { OPSET_MIN = 1, OPSET_MAX = 28 };

/* The op that OP_TYPE is now: most are themselves, Scatter is ScatterElements. */
const char *upgrade_name(const char *op_type);

/* Upgrades *N, the graph's last node, called OP_TYPE in opset VERSION; *N is null where other
 * nodes took its place. OUT are the values that stand for its results (at first N's own); a rule
 * may put others there, and null where a result of the old form has no meaning. False after a
 * diagnostic. */
bool upgrade_node(Node **n, const char *op_type, int version, Value **out);

#endif
