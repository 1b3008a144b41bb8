# SPDX-License-Identifier: Apache-2.0
# make            build/bin/{dlcc,dlcc-opt,dlrun} and build/lib/libdlrt.a
# make SAN=1      the same under ASan + UBSan in build/san; SAN=thread: under TSan in build/tsan
# make check      every test that fits in ten minutes; check-all: the rest too, and the results table
# make demo       train-free tour: compile, link and run a digit classifier
# make deps       install what is missing

CC ?= gcc
AR ?= ar
BUILD := build$(if $(filter 1,$(SAN)),/san)$(if $(filter thread,$(SAN)),/tsan)
OPT ?= -O2

WARN := -Wall -Wextra -Wshadow -Wconversion -Werror
CFLAGS := -std=gnu11 $(OPT) -g $(WARN) -fPIC -fvisibility=hidden -I. -I$(BUILD)/gen -D_GNU_SOURCE \
	$(if $(filter 1,$(SAN)),-fsanitize=address$(comma)undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined) \
	$(if $(filter thread,$(SAN)),-fsanitize=thread)
comma := ,
LDLIBS := -lprotobuf-c -lisl -lm -lpthread -ldl

LIB_DIRS := base ir ops frontend passes codegen
LIB_SRC := $(wildcard $(addsuffix /*.c,$(LIB_DIRS)))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/gen/onnx.pb-c.o
RT_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard runtime/*.c))
TOOLS := $(patsubst tools/%.c,$(BUILD)/bin/%,$(wildcard tools/*.c))

all: $(TOOLS) $(BUILD)/lib/libdlrt.a

$(BUILD)/gen/frontend/onnx.pb-c.c $(BUILD)/gen/frontend/onnx.pb-c.h: frontend/onnx.proto
	@mkdir -p $(BUILD)/gen/frontend
	protoc-c --proto_path=frontend --c_out=$(BUILD)/gen/frontend onnx.proto

$(BUILD)/obj/gen/onnx.pb-c.o: $(BUILD)/gen/frontend/onnx.pb-c.c
	@mkdir -p $(@D)
	$(CC) $(filter-out $(WARN),$(CFLAGS)) -I$(BUILD)/gen/frontend -c $< -o $@

$(BUILD)/obj/%.o: %.c | $(BUILD)/gen/frontend/onnx.pb-c.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/lib/libdlcc.a: $(LIB_OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcsD $@ $^

$(BUILD)/lib/libdlrt.a: $(RT_OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcsD $@ $^

$(BUILD)/bin/%: $(BUILD)/obj/tools/%.o $(BUILD)/lib/libdlcc.a $(BUILD)/lib/libdlrt.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS)

clean:
	rm -rf build

.PHONY: all clean
.SECONDARY:
-include $(LIB_OBJ:.o=.d) $(RT_OBJ:.o=.d) $(patsubst tools/%.c,$(BUILD)/obj/tools/%.d,$(wildcard tools/*.c))
