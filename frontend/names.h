/* SPDX-License-Identifier: Apache-2.0 */
/* Names of a model's nodes, as all messages, kernels and profiles have them. */
#ifndef FRONTEND_NAMES_H
#define FRONTEND_NAMES_H

#include "frontend/onnx.pb-c.h"

#include "base/arena.h"

/* Gives every node a name that no other node of MODEL's graph or of the same function has. A node
 * without a name is named after its operator and its index, as Relu_3, with the names of the bodies
 * around it: cond/then_branch/Relu_3. If several nodes are named fc, the later ones become fc#2,
 * fc#3. */
void onnx_name_nodes(Arena *a, Onnx__ModelProto *model);

#endif
