# Compiler options of all our targets, as one interface target: warnings, and the sanitizers.
add_library(pycomms_options INTERFACE)
target_compile_options(pycomms_options INTERFACE -Wall -Wextra -fno-semantic-interposition)
if(EXISTS ${PROJECT_SOURCE_DIR}/.git)
  # Not for who builds a source distribution: a compiler of tomorrow warns of what none does today.
  target_compile_options(pycomms_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 17)
  # What std::stable_sort of libstdc++ 12 does inside.
  target_compile_options(pycomms_options INTERFACE -Wno-error=deprecated-declarations)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  # False alarm of GCC 12 and 13 on "literal" + std::string (GCC bug 105651).
  target_compile_options(pycomms_options INTERFACE -Wno-restrict)
endif()

if(PYCOMMS_SANITIZE STREQUAL "address")
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(PYCOMMS_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread)
elseif(NOT PYCOMMS_SANITIZE STREQUAL "")
  message(FATAL_ERROR "PYCOMMS_SANITIZE must be address, thread or empty, not '${PYCOMMS_SANITIZE}'")
endif()
if(sanitize)
  # For all targets, those of other folders too: mixing instrumented and plain objects makes false reports.
  # -g1: lines for the reports; with variables as well the compiler takes a quarter longer.
  add_compile_options(${sanitize} -fno-omit-frame-pointer -g1 -O1)
  add_link_options(${sanitize})
endif()

if(sanitize AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # What the optimizer warns of after it has seen checks in between, and headers that are precompiled, is often false (GCC's manual,
  # -fsanitize). The plain variant is compiled with these warnings.
  target_compile_options(pycomms_options INTERFACE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
                                                   -Wno-maybe-uninitialized)
endif()

# To read headers and to compile the same templates again is most of what a file costs. With sanitizers the standard headers are
# compiled once, and the sources of a library a dozen at a time; they then share their anonymous namespaces. The plain variant
# compiles each file as it is and so finds an include that is missing.
function(pycomms_compile_together target)
  if(NOT PYCOMMS_SANITIZE)
    return()
  endif()
  get_target_property(type ${target} TYPE)
  # One for position-independent executables, which have flags of their own, and one for all else.
  set(owner pycomms_standard_headers)
  if(type STREQUAL "EXECUTABLE")
    set(owner pycomms_standard_headers_of_tests)
  else()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
  if(NOT TARGET ${owner})
    set(source ${PROJECT_BINARY_DIR}/${owner}.cpp)
    if(type STREQUAL "EXECUTABLE")
      file(CONFIGURE OUTPUT ${source} CONTENT "int main() {}\n")
      add_executable(${owner} ${source})
    else()
      file(CONFIGURE OUTPUT ${source} CONTENT "// Compiles the headers.\n")
      add_library(${owner} OBJECT ${source})
    endif()
    target_link_libraries(${owner} PRIVATE pycomms_options Threads::Threads)
    target_precompile_headers(${owner} PRIVATE <algorithm> <array> <atomic> <chrono> <condition_variable> <deque>
      <functional> <map> <memory> <mutex> <optional> <sstream> <string> <thread> <vector>)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()
