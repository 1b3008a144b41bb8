# SPDX-License-Identifier: Apache-2.0
#[[
find_package(dlcc): the compiler, the runtime, and models as targets. Installed by `make install` into lib/cmake/dlcc; it finds the
rest of the installation from there.

  dlcc::dlcc, dlcc::dlrun   the programs
  dlcc::headers             the folder of dlrt.h and dlrt.hpp
  dlcc::dlrt                libdlrt.a, for code that `dlcc -o model.c` wrote

  dlcc_add_model(TARGET MODEL [STATIC | SHARED] [NAME NAME] [OPTIONS OPTION...] [DEPENDS FILE...])

adds the library TARGET, which has the compiled MODEL (an .onnx or .dl) with the runtime inside. A target that links it includes
"NAME.h", "dlrt.h" and "dlrt.hpp", and calls NAME_get_api.

  STATIC | SHARED  as of add_library; without either BUILD_SHARED_LIBS decides
  NAME             prefix of the functions and name of the header, a C identifier; default: TARGET
  OPTIONS          further options of dlcc, such as --target=cpu:v3,v4; not generator expressions, $<...>: all configurations share the model
  DEPENDS          further files that the model follows from; the model, its external data and the files that options name are known

TARGET is an ordinary library: install(TARGETS), VERSION and SOVERSION (which gives a SHARED one its SONAME) work as for others. The
model is compiled again only where it, its data, the options or dlcc have changed; the header is only rewritten if it differs. The
weights are inside; with OPTIONS --weights=FILE they are in FILE, which the application takes along.
]]

cmake_minimum_required(VERSION 3.20) # custom commands with a DEPFILE in all generators

get_filename_component(_dlcc_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

foreach(_dlcc_file bin/dlcc bin/dlrun include/dlrt.h lib/libdlrt.a)
	if(NOT EXISTS "${_dlcc_prefix}/${_dlcc_file}")
		set(dlcc_FOUND FALSE)
		set(dlcc_NOT_FOUND_MESSAGE "${_dlcc_prefix}/${_dlcc_file} is missing; install dlcc again (make install)")
		return()
	endif()
endforeach()
unset(_dlcc_file)

if(NOT TARGET dlcc::dlcc)
	add_executable(dlcc::dlcc IMPORTED)
	set_target_properties(dlcc::dlcc PROPERTIES IMPORTED_LOCATION "${_dlcc_prefix}/bin/dlcc")
	add_executable(dlcc::dlrun IMPORTED)
	set_target_properties(dlcc::dlrun PROPERTIES IMPORTED_LOCATION "${_dlcc_prefix}/bin/dlrun")
	add_library(dlcc::headers INTERFACE IMPORTED)
	set_target_properties(dlcc::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_dlcc_prefix}/include")
	add_library(dlcc::dlrt STATIC IMPORTED)
	set_target_properties(dlcc::dlrt PROPERTIES IMPORTED_LOCATION "${_dlcc_prefix}/lib/libdlrt.a"
		INTERFACE_LINK_LIBRARIES "dlcc::headers;m;pthread;dl")
endif()
set(DLCC_RUNTIME "${_dlcc_prefix}/lib/libdlrt.a")
unset(_dlcc_prefix)

function(dlcc_add_model target model)
	cmake_parse_arguments(PARSE_ARGV 2 arg "STATIC;SHARED" "NAME" "OPTIONS;DEPENDS")
	if(arg_UNPARSED_ARGUMENTS)
		message(FATAL_ERROR "dlcc_add_model(${target}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}; options of dlcc follow OPTIONS")
	endif()
	if(arg_STATIC AND arg_SHARED)
		message(FATAL_ERROR "dlcc_add_model(${target}): STATIC or SHARED, not both")
	endif()
	if(NOT arg_NAME)
		set(arg_NAME "${target}")
	endif()
	if(NOT arg_NAME MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
		message(FATAL_ERROR "dlcc_add_model(${target}): \"${arg_NAME}\" is not a C identifier; give another one by NAME")
	endif()
	get_filename_component(model "${model}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
	if(model MATCHES ";|\\$<|\n")
		message(FATAL_ERROR "dlcc_add_model(${target}): CMake cannot name a file with ;, $< or a newline: ${model}; rename it")
	endif()
	if(arg_STATIC)
		set(kind STATIC)
	elseif(arg_SHARED OR BUILD_SHARED_LIBS)
		set(kind SHARED)
	else()
		set(kind STATIC)
	endif()
	get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
	if("C" IN_LIST languages)
		set(language C)
	elseif("CXX" IN_LIST languages)
		set(language CXX)
	else()
		message(FATAL_ERROR "dlcc_add_model(${target}): the project needs the language C or CXX, which links the library")
	endif()
	if(arg_OPTIONS MATCHES "\\$<")
		message(FATAL_ERROR "dlcc_add_model(${target}): OPTIONS has a generator expression, $<...>; give plain options, which all configurations share: ${arg_OPTIONS}")
	endif()
	set(embed --embed-weights)
	foreach(option IN LISTS arg_OPTIONS)
		if(option MATCHES "^--weights(=|$)")
			set(embed "")
		endif()
	endforeach()

	# A changed option is a changed file, on which the object depends, in all generators.
	set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}.dlcc")
	set(object "${folder}/${arg_NAME}.o")
	set(header "${folder}/include/${arg_NAME}.h")
	file(MAKE_DIRECTORY "${folder}/include")
	file(GENERATE OUTPUT "${folder}/options" CONTENT "${arg_OPTIONS};${arg_NAME}\n")
	add_custom_command(
		OUTPUT "${object}"
		BYPRODUCTS "${header}"
		COMMAND dlcc::dlcc "${model}" -o "${object}" "--name=${arg_NAME}" "--depfile=${object}.d" ${embed} ${arg_OPTIONS}
		COMMAND "${CMAKE_COMMAND}" -E copy_if_different "${folder}/${arg_NAME}.h" "${header}"
		DEPENDS "${model}" "${folder}/options" dlcc::dlcc "${DLCC_RUNTIME}" ${arg_DEPENDS}
		DEPFILE "${object}.d"
		COMMENT "Compiling ${target} from ${model}"
		COMMAND_EXPAND_LISTS
		VERBATIM)
	set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
	add_library("${target}" ${kind} "${object}")
	set_target_properties("${target}" PROPERTIES LINKER_LANGUAGE ${language})
	target_include_directories("${target}" INTERFACE "$<BUILD_INTERFACE:${folder}/include>")
	target_link_libraries("${target}" PUBLIC "$<BUILD_INTERFACE:dlcc::headers>" -lm -lpthread -ldl)
endfunction()
