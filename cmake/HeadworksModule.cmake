# Flags that hold for every target, and headworks_module(), the one way to add a module.

find_package(Threads REQUIRED)

add_library(headworks_flags INTERFACE)
target_compile_options(headworks_flags INTERFACE
  -Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety;-Wextra-semi;-Wimplicit-fallthrough;-Wno-missing-designated-field-initializers>
  -fno-omit-frame-pointer -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
target_link_libraries(headworks_flags INTERFACE Threads::Threads)
if(HEADWORKS_SANITIZE)
  target_compile_options(headworks_flags INTERFACE
    -fsanitize=${HEADWORKS_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(headworks_flags INTERFACE -fsanitize=${HEADWORKS_SANITIZE})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_link_options(headworks_flags INTERFACE -fuse-ld=lld)
endif()

# headworks_module(NAME
#   SOURCES a.cc ...          private sources (no sources: a header-only port)
#   HEADERS x.h ...           public headers below include/headworks/NAME/
#   DEPS m ...                modules that the public headers need
#   PRIVATE_DEPS m|lib ...    what only the sources need
#   TESTS tests/a_test.cc ... one test binary per module
#   TEST_DEPS m|lib ...       what only the tests need
#   TEST_LABELS l ...)        ctest labels (default: fast)
#
# An include that is not backed by a DEPS arrow does not compile.
function(headworks_module name)
  cmake_parse_arguments(M "" "" "SOURCES;HEADERS;DEPS;PRIVATE_DEPS;TESTS;TEST_DEPS;TEST_LABELS" ${ARGN})
  list(TRANSFORM M_HEADERS PREPEND include/headworks/${name}/)
  set(target headworks_${name})
  if(M_SOURCES)
    add_library(${target} STATIC ${M_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE headworks_flags)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(headworks::${name} ALIAS ${target})
  target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS include FILES ${M_HEADERS})
  target_compile_features(${target} ${scope} cxx_std_20)
  set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON EXPORT_NAME ${name})
  headworks_link(${target} ${scope} ${M_DEPS})
  if(M_SOURCES)
    headworks_link(${target} PRIVATE ${M_PRIVATE_DEPS})
  endif()
  if(M_TESTS AND HEADWORKS_BUILD_TESTS)
    if(NOT M_TEST_LABELS)
      set(M_TEST_LABELS fast)
    endif()
    headworks_test(${name}_test SOURCES ${M_TESTS} DEPS ${name} ${M_TEST_DEPS}
      LABELS ${M_TEST_LABELS})
    target_include_directories(${name}_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
endfunction()

# A dependency is a module's bare name or any CMake target.
function(headworks_link target scope)
  foreach(dep IN LISTS ARGN)
    if(NOT dep MATCHES "::" AND TARGET headworks_${dep})
      set(dep headworks_${dep})
    endif()
    target_link_libraries(${target} ${scope} ${dep})
  endforeach()
endfunction()

# headworks_test(NAME SOURCES ... DEPS ... LABELS ...): one gtest binary, one ctest entry per TEST.
function(headworks_test name)
  cmake_parse_arguments(T "" "" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE headworks_flags GTest::gtest_main)
  headworks_link(${name} PRIVATE ${T_DEPS})
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${T_LABELS}" TIMEOUT 120)
endfunction()
