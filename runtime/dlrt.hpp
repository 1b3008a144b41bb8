/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlrt.hpp: dlrt.h for C++17 and later. Everything is inline; nothing else is linked.
 *
 * 	#include "digits.h"
 * 	#include "dlrt.hpp"
 *
 * 	dlrt::model model(digits_get_api);
 * 	dlrt::context context(model);
 * 	dlrt::request request(model);
 *
 * 	request.in("scan") = dlrt::tensor(scan, {1, 1, 8, 8});     // float scan[64]
 * 	request.out("logits") = dlrt::tensor(logits, {1, 10});     // float logits[10]
 * 	context.run(request);
 *
 * Objects free what they own. A context keeps its model loaded. A tensor refers to memory of the
 * caller, as a dl_tensor does, but has its shape inside, so it can be copied.
 *
 * Errors. A function that can fail has two forms. One throws dlrt::error. The other takes a
 * dlrt::status and sets it; it is the only form where exceptions are off (-fno-exceptions) or
 * DLRT_NO_EXCEPTIONS is defined: request.in("scan", status). An object whose constructor set a
 * failure is empty: false as a condition. (What the standard library throws when there is no memory for an
 * object of this header is not caught.)
 */
#ifndef DLRT_HPP
#define DLRT_HPP

#include "dlrt.h"

#if __cplusplus < 201703L
#error "dlrt.hpp needs C++17: -std=c++17"
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__cpp_exceptions) && !defined(DLRT_NO_EXCEPTIONS)
#define DLRT_EXCEPTIONS 1
#include <stdexcept>
#endif

namespace dlrt
{

/* ---- Spans ---- */

/* Elements that lie one after the other in memory of somebody else: std::span of C++20, in C++17.
 * Arrays, and containers with data() and size(), convert to it. */
template <class T> class span
{
public:
	using element_type = T;
	using value_type = std::remove_cv_t<T>;

	constexpr span() noexcept = default;
	constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size)
	{
	}
	template <std::size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N)
	{
	}
	template <class C, class P = decltype(std::declval<C &>().data()),
		  class = decltype(std::declval<C &>().size()),
		  std::enable_if_t<std::is_convertible_v<std::remove_pointer_t<P> (*)[], T (*)[]>,
				   int> = 0>
	constexpr span(C &&container) noexcept : data_(container.data()), size_(container.size())
	{
	}
	/* Of constant elements; valid until the end of the full expression. */
	template <class U = T, std::enable_if_t<std::is_const_v<U>, int> = 0>
	constexpr span(std::initializer_list<value_type> list) noexcept
	    : data_(std::data(list)), size_(list.size())
	{
	}

	constexpr T *data() const noexcept
	{
		return data_;
	}
	constexpr std::size_t size() const noexcept
	{
		return size_;
	}
	constexpr std::size_t size_bytes() const noexcept
	{
		return size_ * sizeof(T);
	}
	constexpr bool empty() const noexcept
	{
		return !size_;
	}
	constexpr T &operator[](std::size_t i) const noexcept
	{
		return data_[i];
	}
	constexpr T *begin() const noexcept
	{
		return data_;
	}
	constexpr T *end() const noexcept
	{
		return data_ + size_;
	}

private:
	T *data_ = nullptr;
	std::size_t size_ = 0;
};

/* A list of the description: structs that are as far apart as the size of the first says. */
template <class T> class list
{
public:
	class iterator
	{
	public:
		using iterator_category = std::forward_iterator_tag;
		using value_type = T;
		using difference_type = std::ptrdiff_t;
		using pointer = const T *;
		using reference = const T &;

		iterator() noexcept = default;
		iterator(const list &of, std::size_t at) noexcept : of_(of), at_(at)
		{
		}
		reference operator*() const noexcept
		{
			return of_[at_];
		}
		pointer operator->() const noexcept
		{
			return &of_[at_];
		}
		iterator &operator++() noexcept
		{
			at_++;
			return *this;
		}
		iterator operator++(int) noexcept
		{
			iterator before = *this;

			at_++;
			return before;
		}
		bool operator==(const iterator &other) const noexcept
		{
			return at_ == other.at_;
		}
		bool operator!=(const iterator &other) const noexcept
		{
			return at_ != other.at_;
		}

	private:
		list of_;
		std::size_t at_ = 0;
	};

	list() noexcept = default;
	list(const T *first, std::int32_t size) noexcept
	    : first_(first), size_(size > 0 ? static_cast<std::size_t>(size) : 0)
	{
	}
	std::size_t size() const noexcept
	{
		return size_;
	}
	bool empty() const noexcept
	{
		return !size_;
	}
	const T &operator[](std::size_t i) const noexcept
	{
		return *static_cast<const T *>(static_cast<const void *>(
			static_cast<const char *>(static_cast<const void *>(first_)) +
			i * first_->size));
	}
	iterator begin() const noexcept
	{
		return iterator(*this, 0);
	}
	iterator end() const noexcept
	{
		return iterator(*this, size_);
	}

private:
	const T *first_ = nullptr;
	std::size_t size_ = 0;
};

/* The dims of an input or output, and the descriptions of its items (dl_io.item). */
inline list<dl_dim> dims(const dl_io &io) noexcept
{
	return {io.dim, io.rank};
}

/* The properties of the ONNX file: keys and values. */
inline list<dl_property> properties(const dl_metadata &m) noexcept
{
	return {m.property, m.n_properties};
}

inline list<dl_io> items(const dl_io &io) noexcept
{
	return {io.item, !io.item ? 0 : io.form == DL_MAP ? 2 : 1};
}

/* The index in IOS of the one called NAME; ios.size() if there is none. */
inline std::size_t find(const list<dl_io> &ios, std::string_view name) noexcept
{
	std::size_t i = 0;

	while (i < ios.size() && name != ios[i].name)
		i++;
	return i;
}

/* ---- Errors ---- */

/* The result of a call: a dl_status, and the text of a failure. It needs no memory of its own. */
class status
{
public:
	status() noexcept
	{
		text_[0] = 0;
	}
	bool ok() const noexcept
	{
		return code_ == DL_OK;
	}
	dl_status code() const noexcept
	{
		return static_cast<dl_status>(code_);
	}
	/* One line, safe to print; "" after a success. */
	const char *text() const noexcept
	{
		return text_;
	}
	void set(int code, const char *text) noexcept
	{
		std::size_t n = 0;

		code_ = code;
		if (code != DL_OK && text)
			for (; n + 1 < sizeof(text_) && text[n]; n++)
				text_[n] = text[n];
		text_[n] = 0;
	}
	/* Adds TEXT, as far as there is room. */
	void append(std::string_view text) noexcept
	{
		const std::size_t n = std::strlen(text_), room = sizeof(text_) - 1 - n,
				  add = text.size() < room ? text.size() : room;

		std::memcpy(text_ + n, text.data(), add);
		text_[n + add] = 0;
	}

private:
	int code_ = DL_OK;
	char text_[508];
};

#ifdef DLRT_EXCEPTIONS
/* The exception of the functions that return no status. */
class error : public std::runtime_error
{
public:
	explicit error(const status &s) : std::runtime_error(s.text()), code_(s.code())
	{
	}
	dl_status code() const noexcept
	{
		return code_;
	}

private:
	dl_status code_;
};

namespace detail
{
inline void check(const status &s)
{
	if (!s.ok())
		throw error(s);
}
} /* namespace detail */
#endif

/* ---- Tensors ---- */

/* The element type of T: dtype_of<float>::value is DL_F32. Specialise it for types of your own, such
 * as one for DL_F16. */
template <class T, class = void> struct dtype_of;

#define DLRT_DTYPE(T, D)                                                                           \
	template <> struct dtype_of<T> {                                                           \
		static constexpr dl_dtype value = D;                                               \
	}
DLRT_DTYPE(float, DL_F32);
DLRT_DTYPE(double, DL_F64);
DLRT_DTYPE(bool, DL_BOOL);
DLRT_DTYPE(dl_str, DL_STR);
#undef DLRT_DTYPE

/* Integers by their size, since long and long long are two types. Characters are not numbers. */
template <class T>
struct dtype_of<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool> &&
				    !std::is_same_v<T, char> && !std::is_same_v<T, wchar_t> &&
				    !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>>> {
	static constexpr dl_dtype value =
		std::is_signed_v<T> ? (sizeof(T) == 1   ? DL_I8
				       : sizeof(T) == 2 ? DL_I16
				       : sizeof(T) == 4 ? DL_I32
							: DL_I64)
				    : (sizeof(T) == 1   ? DL_U8
				       : sizeof(T) == 2 ? DL_U16
				       : sizeof(T) == 4 ? DL_U32
							: DL_U64);
};

/*
 * An input or output of a run. It refers to memory of the caller, which must stay until the run is
 * over; its shape and strides are its own. An output that is not given memory, as one that is
 * constructed without arguments, gets memory of the context, which is valid until its next run.
 */
class tensor
{
public:
	static constexpr std::size_t max_rank = 16;

	tensor() noexcept : raw_(dl_tensor_of(0, 0, nullptr, nullptr, 0))
	{
	}
	/* DATA has the elements, of a tensor with this SHAPE. A run refuses data with fewer elements. */
	template <class T>
	tensor(span<T> data, span<const std::int64_t> shape) noexcept
	    : tensor(dtype_of<std::remove_cv_t<T>>::value, data.data(), data.size_bytes(), shape)
	{
	}
	/* An array or container of elements. */
	template <class C, class T = std::remove_reference_t<decltype(*std::data(
				   std::declval<std::remove_reference_t<C> &>()))>>
	tensor(C &&data, span<const std::int64_t> shape) noexcept
	    : tensor(span<T>(std::data(data), std::size(data)), shape)
	{
	}
	/* A pointer, which does not say how many elements there are. */
	template <class P, std::enable_if_t<std::is_pointer_v<std::remove_reference_t<P>>, int> = 0>
	tensor(P &&, span<const std::int64_t>) noexcept : tensor()
	{
		static_assert(!std::is_pointer_v<std::remove_reference_t<P>>,
			      "give the number of elements, too: dlrt::span<float>(pointer, n)");
	}
	/* BYTES of elements of type DTYPE, also of types that C++ lacks. */
	tensor(dl_dtype dtype, const void *data, std::size_t bytes,
	       span<const std::int64_t> shape) noexcept
	    : tensor()
	{
		raw_.dtype = dtype;
		raw_.data = const_cast<void *>(data); /* a run only reads its inputs */
		raw_.bytes = bytes;
		set_shape(shape);
	}
	/* A copy of a dl_tensor, such as an item of a sequence; the memory of its elements or items
	 * is that of T. */
	explicit tensor(const dl_tensor &t) noexcept : tensor()
	{
		raw_ = t;
		raw_.size = static_cast<std::uint32_t>(sizeof(raw_));
		if (t.form == DL_TENSOR)
			set_shape(span<const std::int64_t>(t.shape,
							   static_cast<std::size_t>(t.rank)));
		if (t.form == DL_TENSOR && t.strides)
			set_strides(span<const std::int64_t>(t.strides,
							     static_cast<std::size_t>(t.rank)));
		raw_.shape = nullptr;
		raw_.strides = nullptr;
	}
	/* A sequence, an optional (of no item or one), or a map (of keys and values); as an output:
	 * without items. Or a tensor in pieces (DL_PIECES), which an output has, too. */
	static tensor of(dl_form form, span<dl_tensor> items = {}) noexcept
	{
		tensor t;

		t.raw_.form = form;
		t.raw_.items = items.data();
		t.raw_.n_items = static_cast<std::int64_t>(items.size());
		return t;
	}

	/* A shape with more than max_rank dims is kept in its rank only, which no model has. */
	void set_shape(span<const std::int64_t> shape) noexcept
	{
		raw_.rank = static_cast<std::int32_t>(shape.size());
		for (std::size_t d = 0; d < shape.size() && d < max_rank; d++)
			shape_[d] = shape[d];
	}
	/* In elements; as many as there are dims. None: contiguous. */
	void set_strides(span<const std::int64_t> strides) noexcept
	{
		strided_ = !strides.empty();
		for (std::size_t d = 0; d < max_rank; d++)
			strides_[d] = d < strides.size() ? strides[d] : 0;
	}

	dl_dtype dtype() const noexcept
	{
		return static_cast<dl_dtype>(raw_.dtype);
	}
	dl_form form() const noexcept
	{
		return static_cast<dl_form>(raw_.form);
	}
	span<const std::int64_t> shape() const noexcept
	{
		return {shape_, rank()};
	}
	void *data() const noexcept
	{
		return raw_.data;
	}
	std::size_t bytes() const noexcept
	{
		return static_cast<std::size_t>(raw_.bytes);
	}
	/* The number of elements. */
	std::size_t size() const noexcept
	{
		std::size_t n = 1;

		for (std::size_t d = 0; d < rank(); d++)
			n *= static_cast<std::size_t>(shape_[d]);
		return n;
	}
	/* The elements of a contiguous tensor; none if they are not of type T. */
	template <class T> span<T> as() const noexcept
	{
		if (raw_.dtype != dtype_of<std::remove_cv_t<T>>::value || !raw_.data)
			return {};
		return {static_cast<T *>(raw_.data), size()};
	}
	/* The items of a sequence, an optional or a map. */
	span<const dl_tensor> items() const noexcept
	{
		return {raw_.items, static_cast<std::size_t>(raw_.n_items)};
	}
	/* The same as a struct of dlrt.h, which refers to this tensor's shape: for items. */
	dl_tensor c_tensor() noexcept
	{
		dl_tensor t = raw_;

		t.shape = shape_;
		t.strides = strided_ ? strides_ : nullptr;
		return t;
	}

private:
	friend class context;

	std::size_t rank() const noexcept
	{
		const std::size_t n = static_cast<std::size_t>(raw_.rank);

		return n < max_rank ? n : max_rank;
	}
	/* As an argument of a run: an output has room for all dims. The library does not write to
	 * inputs' shapes. */
	void lend(dl_tensor &to, bool output) const noexcept
	{
		to = raw_;
		to.shape = const_cast<std::int64_t *>(shape_);
		to.strides = strided_ ? strides_ : nullptr;
		if (output)
			to.rank = static_cast<std::int32_t>(max_rank);
	}
	/* After a failure FROM may still have the rank that was lent. */
	void take_back(const dl_tensor &from, bool failed) noexcept
	{
		const std::int32_t before = raw_.rank;

		raw_ = from;
		if (failed && from.rank == static_cast<std::int32_t>(max_rank))
			raw_.rank = before;
		raw_.shape = nullptr;
		raw_.strides = nullptr;
	}

	dl_tensor raw_; /* its shape and strides are null, so that a copy does not refer to this */
	bool strided_ = false;
	std::int64_t shape_[max_rank] = {};
	std::int64_t strides_[max_rank] = {};
};

/* ---- Models ---- */

/* Options with all defaults: set the members that differ. */
inline dl_load_options load_options() noexcept
{
	dl_load_options o;

	std::memset(&o, 0, sizeof(o));
	o.size = static_cast<std::uint32_t>(sizeof(o));
	return o;
}

inline dl_context_options context_options() noexcept
{
	dl_context_options o;

	std::memset(&o, 0, sizeof(o));
	o.size = static_cast<std::uint32_t>(sizeof(o));
	return o;
}

/* A loaded model. Copies refer to the same one, which is unloaded with the last copy and the last of
 * its contexts. Threads may share it. */
class model
{
public:
	model() noexcept = default;
	/* GET_API: NAME_get_api of the header of a model, or what dlsym returned for it. */
	model(dl_get_api_fn get_api, const dl_load_options &options, status &s)
	{
		load(get_api, options, s);
	}
	model(dl_get_api_fn get_api, status &s)
	{
		load(get_api, load_options(), s);
	}
#ifdef DLRT_EXCEPTIONS
	explicit model(dl_get_api_fn get_api, const dl_load_options &options = load_options())
	{
		status s;

		load(get_api, options, s);
		detail::check(s);
	}
#endif
	explicit operator bool() const noexcept
	{
		return loaded_ != nullptr;
	}
	const dl_api &api() const noexcept
	{
		return *loaded_->api;
	}
	dl_model *get() const noexcept
	{
		return loaded_ ? loaded_->model : nullptr;
	}
	const dl_desc &description() const noexcept
	{
		return *api().describe();
	}
	list<dl_io> inputs() const noexcept
	{
		return {description().in, description().n_in};
	}
	list<dl_io> outputs() const noexcept
	{
		return {description().out, description().n_out};
	}
	list<dl_sym> symbols() const noexcept
	{
		return {description().sym, description().n_sym};
	}
	/* The metadata of the ONNX file, or null. */
	const dl_metadata *metadata() const noexcept
	{
		return dl_desc_metadata(&description());
	}
	/* The device that it runs on: "cpu", or "cuda:0" and the GPU's name. */
	const char *device() const noexcept
	{
		return api().device(get());
	}
	/* The bytes of a context's workspace for dims up to MAX_DIMS, one for each symbol. */
	dl_workspace workspace(span<const std::int64_t> max_dims, status &s) const noexcept
	{
		dl_workspace w;
		int code;

		std::memset(&w, 0, sizeof(w));
		w.size = static_cast<std::uint32_t>(sizeof(w));
		code = api().workspace(get(), max_dims.data(),
				       static_cast<std::int32_t>(max_dims.size()), &w);
		s.set(code, code ? api().error(get()) : nullptr);
		return w;
	}
#ifdef DLRT_EXCEPTIONS
	dl_workspace workspace(span<const std::int64_t> max_dims) const
	{
		status s;
		const dl_workspace w = workspace(max_dims, s);

		detail::check(s);
		return w;
	}
#endif

private:
	struct loaded {
		const dl_api *api = nullptr;
		dl_model *model = nullptr;

		loaded() = default;
		loaded(const loaded &) = delete;
		loaded &operator=(const loaded &) = delete;
		~loaded()
		{
			if (model)
				api->unload(model);
		}
	};

	void load(dl_get_api_fn get_api, const dl_load_options &options, status &s)
	{
		auto l = std::make_shared<loaded>();
		int code;

		l->api = get_api ? get_api(DL_ABI_VERSION) : nullptr;
		if (!l->api) {
			s.set(DL_ABI, get_api ? "the model is for another version of dlrt.h"
					      : "get_api is null");
			return;
		}
		code = l->api->load(&options, &l->model);
		s.set(code, code ? l->api->error(nullptr) : nullptr);
		if (!code)
			loaded_ = std::move(l);
	}

	std::shared_ptr<loaded> loaded_;
};

/* The inputs and outputs of a run, in the model's order, by number or by name. It may be used for
 * any number of runs. */
class request
{
public:
	explicit request(const model &m) : inputs_(m.inputs()), outputs_(m.outputs())
	{
		in_.resize(inputs_.size());
		out_.resize(outputs_.size());
		for (std::size_t i = 0; i < outputs_.size(); i++)
			if (outputs_[i].form != DL_TENSOR)
				out_[i] = tensor::of(static_cast<dl_form>(outputs_[i].form));
	}
	/* Null if the model has no input or output of this name. */
	tensor *find_in(std::string_view name) noexcept
	{
		const std::size_t i = find(inputs_, name);

		return i < in_.size() ? &in_[i] : nullptr;
	}
	tensor *find_out(std::string_view name) noexcept
	{
		const std::size_t i = find(outputs_, name);

		return i < out_.size() ? &out_[i] : nullptr;
	}
	tensor &in(std::size_t i) noexcept
	{
		return in_[i];
	}
	tensor &out(std::size_t i) noexcept
	{
		return out_[i];
	}
	/* An unknown name is DL_INVALID; the result is then a tensor that no run reads. */
	tensor &in(std::string_view name, status &s) noexcept
	{
		return found(find_in(name), "input", name, inputs_, s);
	}
	tensor &out(std::string_view name, status &s) noexcept
	{
		return found(find_out(name), "output", name, outputs_, s);
	}
#ifdef DLRT_EXCEPTIONS
	tensor &in(std::string_view name)
	{
		status s;
		tensor &t = in(name, s);

		detail::check(s);
		return t;
	}
	tensor &out(std::string_view name)
	{
		status s;
		tensor &t = out(name, s);

		detail::check(s);
		return t;
	}
#else
	tensor &in(std::string_view) = delete;  /* without exceptions: in(name, status) */
	tensor &out(std::string_view) = delete; /* without exceptions: out(name, status) */
#endif
	span<tensor> ins() noexcept
	{
		return in_;
	}
	span<tensor> outs() noexcept
	{
		return out_;
	}

private:
  tensor &found(tensor *t, const char *what, std::string_view name, const list<dl_io> &ios,
		status &s) noexcept
  {
	  s.set(DL_OK, nullptr);
	  if (t)
		  return *t;
	  s.set(DL_INVALID, "the model has no ");
	  s.append(what);
	  s.append(" \"");
	  s.append(name.substr(0, 100));
	  s.append(ios.empty() ? "\"; it has none" : "\"; it has ");
	  for (std::size_t i = 0; i < ios.size(); i++) {
		  s.append(i ? ", \"" : "\"");
		  s.append(ios[i].name);
		  s.append("\"");
	  }
	  return spare_ = tensor();
  }
	list<dl_io> inputs_, outputs_;
	std::vector<tensor> in_, out_;
	tensor spare_; /* for a name that the model does not have */
};

/* Runs a model: used by one thread at a time, except for cancel. */
class context
{
public:
	context() noexcept = default;
	context(const model &m, const dl_context_options &options, status &s)
	{
		make(m, options, s);
	}
	context(const model &m, status &s)
	{
		make(m, context_options(), s);
	}
#ifdef DLRT_EXCEPTIONS
	explicit context(const model &m, const dl_context_options &options = context_options())
	{
		status s;

		make(m, options, s);
		detail::check(s);
	}
#endif
	context(context &&other) noexcept
	    : model_(std::move(other.model_)), context_(std::exchange(other.context_, nullptr))
	{
	}
	context &operator=(context &&other) noexcept
	{
		if (this != &other) {
			clear();
			model_ = std::move(other.model_);
			context_ = std::exchange(other.context_, nullptr);
		}
		return *this;
	}
	context(const context &) = delete;
	context &operator=(const context &) = delete;
	~context()
	{
		clear();
	}

	explicit operator bool() const noexcept
	{
		return context_ != nullptr;
	}
	dl_context *get() const noexcept
	{
		return context_;
	}
	const model &of() const noexcept
	{
		return model_;
	}

	/* Runs the model on IN and OUT, in the model's order. Sets the outputs' shapes, also after
	 * DL_CAPACITY, and their data where the context provides the memory. STREAM: dl_api.run. */
	void run(span<const tensor> in, span<tensor> out, void *stream, status &s)
	{
		if (in.size() + out.size() <= ON_STACK) {
			dl_tensor lent[ON_STACK];

			call(in, out, stream, lent, s);
		} else {
			std::vector<dl_tensor> lent(in.size() + out.size());

			call(in, out, stream, lent.data(), s);
		}
	}
	void run(span<const tensor> in, span<tensor> out, status &s)
	{
		run(in, out, nullptr, s);
	}
	void run(request &r, status &s, void *stream = nullptr)
	{
		const span<tensor> in = r.ins();

		run({in.data(), in.size()}, r.outs(), stream, s);
	}
	/* Sets up everything that a first run with these dims would; one for each symbol. */
	void prepare(span<const std::int64_t> sizes, status &s) noexcept
	{
		set(s, model_.api().prepare(context_, sizes.data(),
					    static_cast<std::int32_t>(sizes.size())));
	}
	/* Waits for runs on a GPU that returned before their work was done. */
	void wait(status &s) noexcept
	{
		set(s, model_.api().wait(context_));
	}
#ifdef DLRT_EXCEPTIONS
	void run(span<const tensor> in, span<tensor> out, void *stream = nullptr)
	{
		status s;

		run(in, out, stream, s);
		detail::check(s);
	}
	void run(request &r, void *stream = nullptr)
	{
		status s;

		run(r, s, stream);
		detail::check(s);
	}
	void prepare(span<const std::int64_t> sizes)
	{
		status s;

		prepare(sizes, s);
		detail::check(s);
	}
	void wait()
	{
		status s;

		wait(s);
		detail::check(s);
	}
#endif
	/* Stops the current run, or else the next one; from any thread. */
	void cancel() noexcept
	{
		model_.api().cancel(context_);
	}

private:
	static constexpr std::size_t ON_STACK = 16;

	void set(status &s, int code) const noexcept
	{
		s.set(code, code ? model_.api().error(context_) : nullptr);
	}
	void make(const model &m, const dl_context_options &options, status &s)
	{
		int code;

		if (!m) {
			if (s.ok()) /* else it has the reason */
				s.set(DL_INVALID, "the model is not loaded");
			return;
		}
		model_ = m;
		code = m.api().context(m.get(), &options, &context_);
		s.set(code, code ? m.api().error(m.get()) : nullptr);
		if (code)
			context_ = nullptr;
	}
	void clear() noexcept
	{
		if (context_)
			model_.api().context_free(context_);
		context_ = nullptr;
	}
	void call(span<const tensor> in, span<tensor> out, void *stream, dl_tensor *lent,
		  status &s) noexcept
	{
		dl_tensor *const results = lent + in.size();

		for (std::size_t i = 0; i < in.size(); i++)
			in[i].lend(lent[i], false);
		for (std::size_t i = 0; i < out.size(); i++)
			out[i].lend(results[i], true);
		set(s, model_.api().run(context_, lent, static_cast<std::int32_t>(in.size()),
					results, static_cast<std::int32_t>(out.size()), stream));
		for (std::size_t i = 0; i < out.size(); i++)
			out[i].take_back(results[i], !s.ok());
	}

	model model_;
	dl_context *context_ = nullptr;
};

} /* namespace dlrt */

#endif
