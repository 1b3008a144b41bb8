# SPDX-License-Identifier: Apache-2.0
"""Pools, Resize, and other operators on images."""

import numpy as np

from grow import FLOATS, SETS
from operators.rows import ANY, image, row, scalar


@row("AveragePool", "MaxPool", "LpPool")
def pool(g, op):
    v = image(g)
    if v is None:
        return None
    r, n = g.random, v.rank - 2
    dilations = [r.choice((1, 2)) for _ in range(n)] if r.random() < 0.3 else [1] * n
    # No window is larger than the input, which dlcc refuses.
    kernel = [r.choice([k for k in (1, 2, 3) if k == 1 or d * (k - 1) < min(v.sizes(i + 2))]) for i, d in enumerate(dilations)]
    attributes = dict(kernel_shape=kernel, strides=[r.choice((1, 2)) for _ in range(n)], ceil_mode=r.randrange(2))
    if r.random() < 0.2 and max(dilations) == 1:
        attributes["auto_pad"], attributes["ceil_mode"] = r.choice(("SAME_UPPER", "SAME_LOWER", "VALID")), 0
    else:
        attributes["pads"] = [r.randrange(k) for k in kernel * 2]
    if max(dilations) > 1:
        attributes["dilations"] = dilations
    if op == "MaxPool" and r.random() < 0.3:
        attributes["storage_order"] = 1
    if op == "AveragePool":
        attributes["count_include_pad"] = r.randrange(2)
    if op == "LpPool":
        v, attributes["p"] = g.node("Add", [g.node("Abs", [v]), scalar(g, v, 0.5)]), r.choice((1, 2, 3))
    return g.node(op, [v], 2 if op == "MaxPool" and v and v.exact and r.random() < 0.2 else 1, exact=op == "MaxPool", **attributes)


@row("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(g, op):
    v = image(g)
    if op == "GlobalLpPool" and v:
        v = g.node("Abs", [v])
    return g.node(op, [v], exact=op == "GlobalMaxPool")


@row("LRN")
def lrn(g, op):
    return g.node(op, [g.within(image(g), -9, 9)], size=g.random.choice((1, 3, 5)), alpha=0.1, bias=1.0)


@row("Resize")
def resize(g, op):
    # ONNX Runtime computes coordinates in f32, with few digits where they are large.
    v = g.pick(lambda w: all(max(w.sizes(i)) <= 40 for i in range(w.rank)), types=("float32", "float64", "uint8", "int8"), rank=(1, 4), least=1)
    if v is None:
        return None
    r = g.random
    mode = "nearest" if v.type not in FLOATS else r.choice(("nearest", "linear", "cubic"))
    attributes = dict(mode=mode, coordinate_transformation_mode=r.choice(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")))
    if mode == "nearest":
        if r.random() < 0.2:
            attributes["coordinate_transformation_mode"] = "tf_half_pixel_for_nn"
        attributes["nearest_mode"] = r.choice(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    # ONNX's reference samples a single point of pytorch_half_pixel at -0.5, and the standard at 0, which cubic alone tells apart.
    if mode == "cubic" and attributes["coordinate_transformation_mode"] == "pytorch_half_pixel":
        attributes["coordinate_transformation_mode"] = "half_pixel"
    keep = r.randrange(v.rank)
    # With align_corners and a scale that gives no whole size, ONNX Runtime and ONNX's node tests differ.
    if r.random() < 0.5 and attributes["coordinate_transformation_mode"] != "align_corners":
        scales = [1.0 if i < keep else r.choice((0.5, 1.0, 2.0, 3.0)) for i in range(v.rank)]
        return g.node(op, [v, "", g.const(np.array(scales, np.float32))], exact=mode == "nearest", **attributes)
    sizes = [[s if i < keep else r.choice((1, 2, 5, 8)) for i, s in enumerate(shape_)] for shape_ in v.shapes()]
    return g.node(op, [v, "", "", g.ints(*sizes)], exact=mode == "nearest", **attributes)


def square(g, least=1, channels=None, types=("float32", "float32", "float64")):
    """An image of two spatial dims, not large."""
    sizes = [g.new_sizes(), (channels or g.random.choice((1, 2, 3, 4)),) * SETS] + [tuple(max(min(s, 9), least) for s in g.new_sizes()) for _ in range(2)]
    return g.new(g.random.choice(types), sizes) if g.count(sizes) else None


@row("GridSample")
def grid_sample(g, op):
    r = g.random
    v = image(g, types=("float32", "float32", "float64", "float16")) if r.random() < 0.5 else square(g)
    if v is None or v.rank < 4:
        return None
    mode = r.choice(("linear", "nearest", "cubic") if v.rank == 4 else ("linear", "nearest"))
    sizes = [v.sizes(0)] + [tuple(min(s, 6) for s in g.new_sizes()) for _ in range(v.rank - 2)] + [(v.rank - 2,) * SETS]
    grid = g.new(v.type, sizes, exact=True if mode == "nearest" else None) if g.count(sizes) else None
    grid = g.node("Mul", [grid, scalar(g, v, 0.25)], exact=True) if grid else None     # mostly inside
    return g.node(op, [v, grid], mode=mode, padding_mode=r.choice(("zeros", "border", "reflection")), align_corners=r.randrange(2))


@row("AffineGrid")
def affine_grid(g, op):
    n = g.random.choice((2, 3))
    batch = g.new_sizes()
    theta = g.new(g.random.choice(("float32", "float64")), [batch, (n,) * SETS, (n + 1,) * SETS])
    spatial = [g.random.choice((2, 3, 5)) for _ in range(n)]
    return g.node(op, [theta, g.ints(*[[b, 1] + spatial for b in batch])], align_corners=g.random.randrange(2))


@row("Col2Im")
def col2im(g, op):
    r = g.random
    block, stride, dilation = ([r.choice((1, 2, 3)) for _ in range(2)], [r.choice((1, 1, 2)) for _ in range(2)], [r.choice((1, 1, 2)) for _ in range(2)])
    pads = [r.choice((0, 0, 1)) for _ in range(4)]
    sizes = [[r.choice((5, 6, 9)) for _ in range(2)] for _ in range(SETS if r.random() < g.dynamic else 1)]
    sizes = sizes if len(sizes) == SETS else sizes * SETS
    count = [int(np.prod([(s[d] + pads[d] + pads[d + 2] - dilation[d] * (block[d] - 1) - 1) // stride[d] + 1 for d in range(2)])) for s in sizes]
    v = g.new(r.choice(("float32", "float64")), [g.new_sizes(), (block[0] * block[1] * r.choice((1, 2, 3)),) * SETS, tuple(count)])
    return g.node(op, [v, g.ints(*sizes), g.ints(block)], exact=True, strides=stride, dilations=dilation, pads=pads)


@row("MaxUnpool")
def max_unpool(g, op):
    kernel, stride = [g.random.choice((2, 3)) for _ in range(2)], [g.random.choice((2, 3)) for _ in range(2)]
    # ONNX Runtime takes no index beyond what the window gives.
    windows = [tuple(max(1, min(n, 4)) for n in g.new_sizes()) for _ in range(2)]
    sizes = [g.new_sizes(), (g.random.choice((1, 2, 3)),) * SETS] + [tuple((n - 1) * s + k for n in w) for w, k, s in zip(windows, kernel, stride)]
    v = g.new("float32", sizes, exact=True) if g.count(sizes) else None
    if v is None:
        return None
    pooled = g.node("MaxPool", [v], 2, exact=True, kernel_shape=kernel, strides=stride) if v.exact else None
    if pooled is None:
        return None
    more = [g.ints(*v.shapes())] if g.random.random() < 0.5 else []
    return g.node(op, pooled + more, exact=True, kernel_shape=kernel, strides=stride)


@row("CenterCropPad")
def center(g, op):
    v = g.pick(types=ANY, rank=(1, 4))
    if v is None:
        return None
    axes = g.random.sample(range(v.rank), g.random.randint(1, v.rank))
    one = lambda: [g.random.choice((1, 2, 5, 8)) for _ in axes]
    return g.node(op, [v, g.ints(*([one() for _ in range(SETS)] if g.random.random() < 0.4 else [one()]))], exact=True, axes=axes)


@row("RoiAlign", "MaxRoiPool")
def regions(g, op):
    r = g.random
    v = square(g, least=3, types=("float32",))
    if v is None or min(v.sizes(0)) == 0:
        return None
    count = tuple(min(n, 7) for n in g.new_sizes())
    arrays, batch = [], []
    for k in range(SETS):
        corner = g.rng.integers(0, 6, (count[k], 2))
        arrays.append(np.concatenate([corner, corner + g.rng.integers(1, 9, (count[k], 2))], 1).astype(np.float32))
        batch.append(g.rng.integers(0, v.sizes(0)[k], count[k]).astype(np.int64))
    shape_ = [r.choice((1, 2, 4)), r.choice((1, 2, 4))]
    if op == "MaxRoiPool":
        rois = [np.concatenate([b[:, None].astype(np.float32), a], 1) for a, b in zip(arrays, batch)]
        return g.node(op, [v, g.feed(rois)], exact=True, pooled_shape=shape_, spatial_scale=r.choice((1.0, 0.5)))
    return g.node(op, [v, g.feed(arrays), g.feed(batch)], output_height=shape_[0], output_width=shape_[1], mode=r.choice(("avg", "avg", "max")),
                  sampling_ratio=r.choice((0, 1, 2)), spatial_scale=r.choice((1.0, 0.5)),
                  coordinate_transformation_mode=r.choice(("half_pixel", "output_half_pixel")))


@row("DeformConv")
def deform_conv(g, op):
    r = g.random
    v = square(g, least=5, channels=r.choice((2, 4)), types=("float32", "float32", "float64", "float16"))
    if v is None:
        return None
    c = v.sizes(1)[0]
    kernel, stride, dilation = ([r.choice(some) for _ in range(2)] for some in ((1, 2, 3), (1, 2), (1, 1, 2)))
    pads = [r.choice((0, 1)) for _ in range(4)]
    group, offsets = r.choice((1, 2)), r.choice((1, 2))
    out = [tuple((s + pads[d] + pads[d + 2] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1 for s in v.sizes(d + 2)) for d in range(2)]
    taps = kernel[0] * kernel[1] * offsets
    operands = [v, g.new(v.type, [(n,) * SETS for n in (2 * group, c // group, *kernel)]), g.new(v.type, [v.sizes(0), (2 * taps,) * SETS] + out)]
    if r.random() < 0.5:
        operands.append(g.new(v.type, [(2 * group,) * SETS]) if r.random() < 0.6 else "")
        operands.append(g.new(v.type, [v.sizes(0), (taps,) * SETS] + out))
    return g.node(op, operands, group=group, offset_group=offsets, strides=stride, dilations=dilation, pads=pads, **(
        {"kernel_shape": kernel} if r.random() < 0.5 else {}))


@row("Det")
def det(g, op):
    n = g.random.choice((1, 2, 3, 5))
    return g.node(op, [g.new(g.random.choice(("float32", "float64")), [g.new_sizes() for _ in range(g.random.randint(0, 2))] + [(n,) * SETS] * 2)])
