# SPDX-License-Identifier: Apache-2.0
"""How each operator is put into a random graph: a function from a Grower and the operator's name to its results, or None.

A function chooses operands for which the operator is likely to be defined; whether it is, the Grower finds out. `exact` says that
results are exact where operands are, so that operators that jump may take them.

A file has the rows of a family of operators. The order in which they are imported is that of ROWS, from which a seed chooses."""

import operators.elementwise  # noqa: F401
import operators.shapes  # noqa: F401
import operators.indices  # noqa: F401
import operators.reductions  # noqa: F401
import operators.contractions  # noqa: F401
import operators.recurrent  # noqa: F401
import operators.quantised  # noqa: F401
import operators.images  # noqa: F401
import operators.sequences  # noqa: F401
import operators.sorting  # noqa: F401
import operators.lists  # noqa: F401
import operators.strings  # noqa: F401
import operators.drawn  # noqa: F401
import operators.recent  # noqa: F401
import operators.microsoft  # noqa: F401
from operators.rows import ROWS, axis, image, row, scalar  # noqa: F401

# Operators of the table that no graph has, with the reason.
LEFT_OUT = {"Upsample": "the standard has had Resize in its place since opset 10, and graphs are of the newest",
            **dict.fromkeys(("Affine", "Scale", "ScaledTanh", "ParametricSoftplus", "Crop", "ImageScaler"),
                            "the standard dropped it in opset 10; tests/ops/random_ops.py has its cases")}
