# SPDX-License-Identifier: Apache-2.0
"""Graphs through torch.compile(backend="dlcc") and modules through dlcc.export give what eager PyTorch gives, are compiled as often
as they should be, and what is refused runs eagerly and is counted. Prints FAIL lines and "N passed, N failed"."""

import functools
import sys
import warnings

import torch
from torch import nn

import dlcc
from dlcc import pytorch

COMPILED = []  # a Model for each compilation
compile_ = dlcc.compiling.compile


@functools.wraps(compile_)
def counting(*arguments, **options):
    COMPILED.append(compile_(*arguments, **options))
    return COMPILED[-1]


pytorch.compiling.compile = counting


class Results(nn.Module):
    """Results in a structure, one of them twice, and an integer input."""

    def forward(self, x, index):
        picked = x[index]
        return {"picked": picked, "both": (picked * 2, [x.argmax(-1), picked])}


class Rows(nn.Module):
    """A size goes into the computation as a number."""

    def forward(self, x):
        return x.reshape(x.shape[0] * x.shape[1], -1).sum(0) / x.shape[0]


class Writes(nn.Module):
    def forward(self, x):
        x.add_(1)
        return x * 2


class Turned(nn.Module):
    """A result that is a view of an input."""

    def forward(self, x):
        return x.t(), x * 2


class Scaled(nn.Module):
    scale = 1.5

    def forward(self, x):
        return x * self.scale


class Halves(nn.Module):
    def forward(self, x):
        return (x.to(torch.bfloat16) @ x.to(torch.bfloat16).T).relu()


def convolutional():
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 49, 5))


def attention():
    torch.backends.mha.set_fastpath_enabled(False)  # ONNX lacks the fused kernel
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return nn.Sequential(layer, nn.Linear(32, 7))


def same(a, b, bound=1e-4):
    a, b = (torch.utils._pytree.tree_flatten(v)[0] for v in (a, b))
    assert len(a) == len(b), (len(a), len(b))
    for x, y in zip(a, b):
        assert x.dtype == y.dtype and x.shape == y.shape, (x.dtype, y.dtype, x.shape, y.shape)
        torch.testing.assert_close(x, y, rtol=2e-2 if x.dtype == torch.bfloat16 else bound, atol=bound)


def runs(module, *sets, times=1, refused=0, dynamic=None, mark=None, training=False):
    """MODULE gives for each of SETS, tuples of inputs, what it gives eagerly; dlcc compiles TIMES graphs and refuses REFUSED."""
    module = module.train() if training else module.eval()
    COMPILED.clear()
    pytorch.refused.clear()
    torch._dynamo.reset()
    compiled = torch.compile(module, backend=pytorch.backend, dynamic=dynamic)
    with torch.no_grad():
        for inputs in sets:
            expected = module(*(i.clone() for i in inputs))
            if mark is not None:
                torch._dynamo.mark_dynamic(inputs[0], mark)
            same(compiled(*(i.clone() for i in inputs) if mark is None else inputs), expected)
    assert (len(COMPILED), sum(pytorch.refused.values())) == (times, refused), (len(COMPILED), pytorch.refused)


def a_convolution():
    runs(convolutional(), (torch.randn(2, 3, 16, 16),))


def an_attention():
    runs(attention(), (torch.randn(2, 5, 32),))


def a_marked_batch_is_compiled_once():
    runs(convolutional(), *((torch.randn(n, 3, 16, 16),) for n in (4, 2, 9)), mark=0)


def sizes_that_vary_are_compiled_twice():
    runs(attention(), *((torch.randn(n, 5, 32),) for n in (4, 2, 9)), times=2)


def every_size_is_dynamic():
    runs(convolutional(), *((torch.randn(n, 3, 16, 16),) for n in (4, 2, 9)), dynamic=True)


def a_structure_of_results():
    runs(Results(), (torch.randn(6, 4), torch.tensor([3, 0, 5])))


def a_size_as_a_number():
    runs(Rows(), (torch.randn(4, 3, 8),), (torch.randn(6, 3, 8),), times=2)


def bfloat16():
    runs(Halves(), (torch.randn(4, 8),))


def a_changed_parameter_is_compiled_again():
    module = nn.Linear(4, 3).eval()
    compiled = torch.compile(module, backend=pytorch.backend)
    COMPILED.clear()
    with torch.no_grad():
        x = torch.randn(2, 4)
        same(compiled(x), module(x))
        module.weight.mul_(2)
        same(compiled(x), module(x))
        module.weight = nn.Parameter(torch.randn(3, 4))
        same(compiled(x), module(x))
    assert len(COMPILED) == 3, len(COMPILED)


def gradients_run_eagerly():
    module = nn.Linear(4, 3)
    pytorch.refused.clear()
    torch._dynamo.reset()
    torch.compile(module, backend=pytorch.backend)(torch.randn(2, 4)).sum().backward()
    assert module.weight.grad is not None
    assert "gradients" in next(iter(pytorch.refused)), pytorch.refused


def writes_to_an_input_run_eagerly():
    runs(Writes(), (torch.randn(3, 3),), times=0, refused=1)


def batch_norm_in_training_runs_eagerly():
    runs(convolutional(), (torch.randn(2, 3, 16, 16),), times=0, refused=1, training=True)


def views_of_inputs_run_eagerly():
    runs(Turned(), (torch.randn(3, 4),), times=0, refused=1)


def a_result_twice_is_one_tensor():
    compiled = torch.compile(Results().eval(), backend=pytorch.backend)
    with torch.no_grad():
        given = compiled(torch.randn(6, 4), torch.tensor([1]))
    assert given["picked"] is given["both"][1][1]


def numbers_of_a_module():
    """A number that changes is compiled once for each value."""
    module = Scaled()
    COMPILED.clear()
    pytorch.refused.clear()
    torch._dynamo.reset()
    compiled = torch.compile(module, backend=pytorch.backend, dynamic=True)
    with torch.no_grad():
        for scale in 1.5, 2.5, 1.5, 3.5, 2.5:
            module.scale = scale
            x = torch.randn(3)
            same(compiled(x), x * scale)
    assert len(COMPILED) == 3 and not pytorch.refused, (len(COMPILED), pytorch.refused)


def random_numbers_run_eagerly():
    pytorch.refused.clear()
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(nn.Dropout(0.5).train(), backend=pytorch.backend)(torch.randn(50))
    assert "random" in next(iter(pytorch.refused)), pytorch.refused


def refusals_are_one_warning():
    pytorch.refused.clear()
    torch._dynamo.reset()
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            torch.compile(Writes(), backend=pytorch.backend)(torch.randn(2, 2))
            torch._dynamo.reset()
    given = [w for w in caught if issubclass(w.category, pytorch.RefusedWarning)]
    assert len(given) == 1 and sum(pytorch.refused.values()) == 2, (given, pytorch.refused)


def exported_with_a_dynamic_batch():
    module = convolutional().eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    model = dlcc.export(module, (torch.randn(2, 3, 16, 16),), dynamic_shapes=({0: batch},), input_names=["image"], output_names=["scores"])
    assert [io.name for io in (*model.describe().inputs, *model.describe().outputs)] == ["image", "scores"], model
    assert model.describe().inputs[0].dims == ("batch", 3, 16, 16), model
    for n in 1, 7:
        x = torch.randn(n, 3, 16, 16)
        same(torch.from_numpy(model(x.numpy())), module(x).detach())
    (symbol,) = model.describe().symbols
    assert (symbol.lower, symbol.upper) == (1, 64), symbol


class Apart(torch.nn.Module):
    def forward(self, x, y):
        return x.sum(0) + y.sum(0)


def names_of_sizes_in_another_order():
    a, b = torch.export.Dim("alpha"), torch.export.Dim("beta")
    for shapes in {"x": {0: a}, "y": {0: b}}, {"y": {0: b}, "x": {0: a}}:
        model = dlcc.export(Apart(), (torch.randn(3, 4), torch.randn(5, 4)), dynamic_shapes=shapes)
        assert [io.dims for io in model.describe().inputs] == [("alpha", 4), ("beta", 4)], model


def an_export_that_torch_refuses():
    try:
        dlcc.export(Writes(), (torch.randn(2, 2),))
    except pytorch.Refused as error:
        assert "writes to" in str(error), error
    else:
        raise AssertionError("no exception")


def one_tensor_as_the_arguments():
    module = convolutional().eval()
    x = torch.randn(1, 3, 16, 16)
    same(torch.from_numpy(dlcc.export(module, x)(x.numpy())), module(x).detach())
    try:  # torch takes a size of 1 for a constant
        dlcc.export(module, x, dynamic_shapes=({0: torch.export.Dim("batch")},))
    except pytorch.Refused as error:
        assert "have to be 2 or more" in str(error), error
    else:
        raise AssertionError("no exception")


def wrong_options_are_errors():
    for options, why in (({"levl": 3}, "no argument levl"), ({"threads": -2}, "threads is -2"), ({"level": 9}, "-O9"), ({"options": ["--frob"]}, "unknown option --frob")):
        torch._dynamo.reset()
        try:
            with torch.no_grad():
                torch.compile(torch.nn.Linear(4, 4), backend=pytorch.backend, options=options)(torch.ones(2, 4))
        except Exception as error:  # of torch, for a fault that the backend finds as torch calls it
            assert why in str(error), error
        else:
            raise AssertionError(f"it runs with {options}")


TESTS = (a_convolution, an_attention, a_marked_batch_is_compiled_once, sizes_that_vary_are_compiled_twice, every_size_is_dynamic,
         a_structure_of_results, a_size_as_a_number, bfloat16, a_changed_parameter_is_compiled_again, gradients_run_eagerly,
         writes_to_an_input_run_eagerly, batch_norm_in_training_runs_eagerly, views_of_inputs_run_eagerly, a_result_twice_is_one_tensor, numbers_of_a_module, random_numbers_run_eagerly, refusals_are_one_warning,
         exported_with_a_dynamic_batch, names_of_sizes_in_another_order, an_export_that_torch_refuses, one_tensor_as_the_arguments, wrong_options_are_errors)


def main():
    warnings.simplefilter("ignore")
    failed = 0
    for test in TESTS:
        torch.manual_seed(1)
        try:
            test()
        except Exception as error:  # any fault is the test's failure
            failed += 1
            print(f"FAIL {test.__name__}: {type(error).__name__}: {error}".replace("\n", " ")[:400])
    print(f"{len(TESTS) - failed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
