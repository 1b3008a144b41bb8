/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlrt.hpp over the models "model" (MatMul of f32[N,64] with ones), "words" (doubles strings) and
 * "list" (negates a sequence). It is compiled with and without exceptions. wrapper time: measures how
 * much longer a run takes than by dlrt.h, and fails from 200 ns on.
 */
#include "list.h"
#include "model.h"
#include "words.h"

#include "dlrt.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#if __has_include(<span>)
#include <span>
#endif

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	std::printf("wrong: %s\n", what);
	std::exit(1);
}

static void need(const dlrt::status &s, const char *what)
{
	if (!s.ok())
		std::printf("%s\n", s.text());
	need(s.ok(), what);
}

static dlrt::context opened(dl_get_api_fn get_api)
{
	dlrt::status s;
	dlrt::model m(get_api, s);

	need(s, "load");
	dlrt::context c(m, s);
	need(s, "context");
	return c; /* M is loaded as long as it lives */
}

static void numbers()
{
	dlrt::status s;
	dlrt::context c = opened(model_get_api);
	const dlrt::model &m = c.of();
	std::vector<float> x(3 * 64, 0.5f);
	std::array<float, 30> y{};
	dlrt::request r(m);

	need(m.inputs().size() == 1 && m.inputs()[0].name == std::string_view("x"), "inputs");
	need(m.symbols().size() == 1 && dlrt::find(m.outputs(), "nothing") == 1, "lists");
	for (const dl_dim &d : dlrt::dims(m.inputs()[0]))
		need(d.sym == 0 || d.value == 64, "dims");
	need(!r.find_in("y") && r.find_in("x") == &r.in(0) && r.find_out("y"), "names");
	r.in(0) = dlrt::tensor(x, {3, 64});
	r.out(0) = dlrt::tensor(y, {3, 10});
	c.run(r, s);
	need(s, "run");
	need(y[0] == 32 && y[29] == 32 && r.out(0).as<float>().data() == y.data(), "elements");
	need(r.out(0).as<double>().empty(), "elements of another type");
	/* memory of the context, and a shape that the run sets */
	r.out(0) = dlrt::tensor();
	r.in(0) = dlrt::tensor(dlrt::span<float>(x.data(), 128), {2, 64});
	c.run(r, s);
	need(s, "memory of the context");
	c.run(r, s);
	need(s, "memory of the context, again");
	need(r.out(0).shape().size() == 2 && r.out(0).shape()[0] == 2 &&
		     r.out(0).as<const float>()[19] == 32,
	     "the shape");
	/* strides, and a copy of a tensor, which has a shape of its own */
	{
		dlrt::tensor every(x, {1, 64}), copy;
		const std::int64_t two[] = {128, 2};

		every.set_strides(two);
		copy = every;
		every.set_shape({7, 7});
		std::vector<dlrt::tensor> in{copy};
		r.out(0) = dlrt::tensor(y, {1, 10});
		c.run(in, r.outs(), s);
		need(s, "strides");
		need(y[0] == 32, "strided elements");
	}
	/* a workspace, and options */
	const dl_workspace w = m.workspace({3}, s);
	need(s, "workspace");
	need(w.align == 64, "alignment");
	c.prepare({3}, s);
	need(s, "prepare");
#if defined(__cpp_lib_span)
	std::span<float> view(x);
	c.run(std::vector<dlrt::tensor>{dlrt::tensor(view, {3, 64})}, r.outs(), s);
	need(s.ok() && r.out(0).shape()[0] == 3, "std::span");
#endif
}

static void faults()
{
	dlrt::status s;
	dlrt::context c = opened(model_get_api), none;
	float x[64] = {}, y[10];
	dlrt::request r(c.of());

	r.in(0) = dlrt::tensor(dlrt::span<float>(x, 64), {1, 64});
	r.out(0) = dlrt::tensor(dlrt::span<float>(y, 9), {1, 9});
	c.run(r, s);
	need(s.code() == DL_CAPACITY && r.out(0).shape()[1] == 10, "too little room");
	r.in(0) = dlrt::tensor(x, {2, 64});
	r.out(0) = dlrt::tensor(y, {1, 10});
	c.run(r, s);
	need(s.code() == DL_INVALID && std::string_view(s.text()).find("\"x\"") != std::string_view::npos,
	     "too few elements");
	r.in(0) = dlrt::tensor(x, std::vector<std::int64_t>(40, 1));
	c.run(r, s);
	need(s.code() == DL_SHAPE, "a rank that no model has");
	need(r.out(0).shape().size() == 2, "the shape after a failure");
	{
		dlrt::model lost([](std::uint32_t) -> const dl_api * { return nullptr; }, s);
		need(!lost && s.code() == DL_ABI, "another version");
		dlrt::context nothing(lost, s);
		need(!nothing && s.code() == DL_ABI, "a context of no model keeps its failure");
		dlrt::status fresh;
		dlrt::context neither(lost, fresh);
		need(!neither && fresh.code() == DL_INVALID, "a context of no model");
		dl_load_options o = dlrt::load_options();
		o.threads = -1;
		dlrt::model refused(model_get_api, o, s);
		need(!refused && s.code() == DL_INVALID && *s.text(), "options");
	}
	none = std::move(c);
	need(none && !c, "move");
	need(&r.out("y", s) == &r.out(0) && s.ok(), "a name and a status");
	need(&r.out(std::string(2000, 'z'), s) != &r.out(0) && s.code() == DL_INVALID &&
		     std::string_view(s.text()).find("z\"; it has \"y\"") != std::string_view::npos,
	     "an unknown name");
	dlrt::request unset(none.of());
	none.run(unset, s);
	need(s.code() == DL_INVALID && !std::strcmp(s.text(), "input \"x\" is not set"),
	     "an input that is not set");
#ifdef DLRT_EXCEPTIONS
	try {
		none.run(r);
		need(false, "no exception");
	} catch (const dlrt::error &e) {
		need(e.code() == DL_SHAPE && std::string(e.what()).find("rank") != std::string::npos,
		     "the exception");
	}
	try {
		r.in("z");
		need(false, "no exception for a name");
	} catch (const dlrt::error &e) {
		need(e.code() == DL_INVALID &&
			     e.what() == std::string("the model has no input \"z\"; it has \"x\""),
		     "the name");
	}
	dlrt::model m(model_get_api);
	dlrt::context again(m);
	r.in("x") = dlrt::tensor(x, {1, 64});
	again.run(r);
	again.prepare({1});
	again.wait();
	need(m.workspace({1}).align == 64 && y[0] == 0, "the forms that throw");
#endif
}

static void other_forms()
{
	dlrt::status s;
	dlrt::context c = opened(words_get_api);
	dl_str word[2] = {{"first", 5}, {"second", 6}};
	dlrt::request r(c.of());

	r.in(0) = dlrt::tensor(word, {2});
	c.run(r, s);
	need(s, "strings");
	need(std::string_view(r.out(0).as<dl_str>()[1].p, r.out(0).as<dl_str>()[1].n) ==
		     "secondsecond",
	     "the strings");
	c = opened(list_get_api);
	float a[3] = {1, 2, 3};
	dlrt::tensor item(a, {3});
	dl_tensor items[2] = {item.c_tensor(), item.c_tensor()};
	dlrt::request l(c.of());
	l.in(0) = dlrt::tensor::of(DL_SEQUENCE, items);
	c.run(l, s);
	need(s, "a sequence");
	need(l.out(0).items().size() == 2 &&
		     dlrt::tensor(l.out(0).items()[1]).as<float>()[2] == -3,
	     "the items");
}

/* The least nanoseconds of a run in a batch of 1,000. */
template <class F> static double least(F run)
{
	double best = 1e9;

	for (int batch = 0; batch < 20; batch++) {
		const auto begin = std::chrono::steady_clock::now();
		for (int i = 0; i < 1000; i++)
			run();
		const std::chrono::duration<double, std::nano> took =
			std::chrono::steady_clock::now() - begin;
		best = std::min(best, took.count() / 1000);
	}
	return best;
}

static void timed()
{
	dlrt::status s;
	dl_load_options o = dlrt::load_options();
	o.threads = 1;
	dlrt::model m(model_get_api, o, s);
	dlrt::context c(m, s);
	float x[64] = {}, y[10];
	std::int64_t in_shape[] = {1, 64}, out_shape[2];
	dl_tensor in = dl_tensor_of(DL_F32, 2, in_shape, x, sizeof(x));
	dl_tensor out = dl_tensor_of(DL_F32, 2, out_shape, y, sizeof(y));
	dlrt::request r(m);
	double by_c = 1e9, by_cpp = 1e9;

	r.in(0) = dlrt::tensor(x, {1, 64});
	r.out(0) = dlrt::tensor(y, {1, 10});
	for (int turn = 0; turn < 5; turn++) {
		by_c = std::min(by_c, least([&] { m.api().run(c.get(), &in, 1, &out, 1, nullptr); }));
		by_cpp = std::min(by_cpp, least([&] { c.run(r, s); }));
	}
	std::printf("%.0f ns by dlrt.h, %.0f ns by dlrt.hpp\n", by_c, by_cpp);
	need(by_cpp < by_c + 200, "the time of a run");
}

int main(int argc, char **)
{
	if (argc > 1) {
		timed();
		return 0;
	}
	numbers();
	faults();
	other_forms();
	std::puts("ok");
	return 0;
}
