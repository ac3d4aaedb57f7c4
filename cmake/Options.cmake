# Compiler options of all our targets, as one interface target: warnings are errors, and the sanitizers.
add_library(pycomms_options INTERFACE)
target_compile_options(pycomms_options INTERFACE -Wall -Wextra -Werror -fno-semantic-interposition)
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
  add_compile_options(${sanitize} -fno-omit-frame-pointer -g -O1)
  add_link_options(${sanitize})
endif()
