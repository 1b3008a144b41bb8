/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opset upgrades: every node of the standard domain is converted to the form of opset 28 when it is
 * imported, so the rest of the compiler knows one form of each operator.
 *
 * A rule is a row (operator, the version that ended the old form, function) in upgrade.c. Types are
 * not known yet, so a rule never uses a rank or an element type. It adds Shape, CastLike and
 * Reshape nodes instead, which shape inference removes.
 */
#ifndef FRONTEND_UPGRADE_H
#define FRONTEND_UPGRADE_H

#include "ir/graph/graph.h"

enum { OPSET_MIN = 1, OPSET_MAX = 28 };

/* The current name of the operator OP_TYPE: mostly itself; Scatter is ScatterElements. */
const char *upgrade_name(const char *op_type);

/* The version whose attributes a node of OP_TYPE may have in opset VERSION: usually VERSION itself.
 * Under an old name an operator has only the attributes of the version in which it got its current
 * name. */
int upgrade_attrs_version(const char *op_type, int version);

/* The I-th older form of the current operator NAME: the name of its nodes. *UNTIL is the version
 * that ended that form; 0: only the name differed. Null if there are no more. */
const char *upgrade_form(const char *name, int i, int *until);

/* The first version in which attribute ATTR of the older forms of OP_TYPE is an operand; 0: it
 * never is. */
int upgrade_input_since(const char *op_type, const char *attr);

/* Upgrades *N, the graph's last node, named OP_TYPE in opset VERSION. *N becomes null if other
 * nodes replace it. OUT has the values that replace its results, initially N's results. A rule may
 * set other values; null if a result of the old form has no counterpart. False after a
 * diagnostic. */
bool upgrade_node(Node **n, const char *op_type, int version, Value **out);

#endif
