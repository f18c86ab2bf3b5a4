# Flags that hold for every target, and headworks_module(), the one way to add a module.

find_package(Threads REQUIRED)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

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
#   TEST_LABELS l ...         ctest labels (default: fast), see headworks_test()
#   COMPONENT c)              find_package component that installs it (default: runtime), or none
#
# An include that is not backed by a DEPS arrow does not compile.
function(headworks_module name)
  cmake_parse_arguments(M "" "COMPONENT"
    "SOURCES;HEADERS;DEPS;PRIVATE_DEPS;TESTS;TEST_DEPS;TEST_LABELS" ${ARGN})
  list(TRANSFORM M_HEADERS PREPEND include/headworks/${name}/)
  set(target headworks_${name})
  if(M_SOURCES)
    add_library(${target} STATIC ${M_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:headworks_flags>)
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
  headworks_install(${target} "${M_COMPONENT}")
  if(M_TESTS AND HEADWORKS_BUILD_TESTS)
    if(NOT M_TEST_LABELS)
      set(M_TEST_LABELS fast)
    endif()
    headworks_test(${name}_test SOURCES ${M_TESTS} DEPS ${name} ${M_TEST_DEPS}
      LABELS ${M_TEST_LABELS})
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

# A component is one export set; headworksConfig.cmake loads the ones that were asked for.
function(headworks_install target component)
  if(component STREQUAL "none")
    return()
  elseif(NOT component)
    set(component runtime)
  endif()
  set_property(GLOBAL APPEND PROPERTY HEADWORKS_COMPONENTS ${component})
  set_property(GLOBAL APPEND PROPERTY HEADWORKS_INSTALLED ${target})
  install(TARGETS ${target} EXPORT headworks-${component}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT ${component})
endfunction()

# Called once, after the last module.
function(headworks_install_package)
  set(where ${CMAKE_INSTALL_LIBDIR}/cmake/headworks)
  get_property(components GLOBAL PROPERTY HEADWORKS_COMPONENTS)
  list(REMOVE_DUPLICATES components)
  foreach(component IN LISTS components)
    install(EXPORT headworks-${component} NAMESPACE headworks:: DESTINATION ${where}
      COMPONENT ${component})
  endforeach()
  configure_package_config_file(cmake/headworksConfig.cmake.in headworksConfig.cmake
    INSTALL_DESTINATION ${where})
  write_basic_package_version_file(headworksConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/headworksConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/headworksConfigVersion.cmake DESTINATION ${where}
    COMPONENT author)
endfunction()

# Sets `result` to whether a test with these labels belongs to this build tree.
#
# One ctest run covers three trees.  `dev` (HEADWORKS_TEST_ONLY empty) has every test but those
# labelled `release-only`; `tsan` has those labelled `threads`, `release` those labelled `release`
# or `release-only`, each under a prefix of its own.
function(headworks_test_is_here result)
  set(here FALSE)
  if(HEADWORKS_TEST_ONLY)
    if(HEADWORKS_TEST_ONLY IN_LIST ARGN OR "${HEADWORKS_TEST_ONLY}-only" IN_LIST ARGN)
      set(here TRUE)
    endif()
  elseif(NOT "release-only" IN_LIST ARGN)
    set(here TRUE)
  endif()
  set(${result} ${here} PARENT_SCOPE)
endfunction()

# headworks_test(NAME
#   SOURCES ... DEPS ...
#   [LABELS l ...]     fast (default): `ctest -L fast` stays under a minute in all
#                      threads: uses threads, so it is also built and run under TSan
#                      release: also built and run optimised; release-only: nowhere else
#   [TIMEOUT seconds]  of one TEST; default 120
#   [ENVIRONMENT k=v ...])
# One gtest binary, one ctest entry per TEST.
function(headworks_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;DEPS;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT T_LABELS)
    set(T_LABELS fast)
  endif()
  headworks_test_is_here(here ${T_LABELS})
  if(NOT here)
    return()
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  list(APPEND T_ENVIRONMENT UBSAN_OPTIONS=print_stacktrace=1)
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE headworks_flags GTest::gtest_main)
  headworks_link(${name} PRIVATE ${T_DEPS})
  gtest_discover_tests(${name} TEST_PREFIX "${HEADWORKS_TEST_PREFIX}" DISCOVERY_TIMEOUT 60
    TEST_LIST ${name}_found)
  # Properties go in afterwards: gtest_discover_tests would flatten the list of labels.
  set(properties ${CMAKE_CURRENT_BINARY_DIR}/${name}_properties.cmake)
  file(CONFIGURE OUTPUT ${properties} @ONLY CONTENT [[
if(@name@_found)
  set_tests_properties(${@name@_found} PROPERTIES
    LABELS "@T_LABELS@" TIMEOUT @T_TIMEOUT@ ENVIRONMENT "@T_ENVIRONMENT@")
endif()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${properties})
  add_dependencies(headworks_tests ${name})
endfunction()

# headworks_command_test(NAME COMMAND ... [LABELS l ...] [TIMEOUT seconds] [PROCESSORS n]): a
# command that must exit with 0, run at the top of the source tree.
function(headworks_command_test name)
  cmake_parse_arguments(T "" "TIMEOUT;PROCESSORS" "COMMAND;LABELS" ${ARGN})
  headworks_test_is_here(here ${T_LABELS})
  if(NOT here)
    return()
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  if(NOT T_PROCESSORS)
    set(T_PROCESSORS 1)
  endif()
  add_test(NAME ${HEADWORKS_TEST_PREFIX}${name} COMMAND ${T_COMMAND}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${HEADWORKS_TEST_PREFIX}${name} PROPERTIES
    LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT} PROCESSORS ${T_PROCESSORS})
endfunction()
