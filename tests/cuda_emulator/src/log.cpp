#include "log.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>

namespace cuemu {

void log(const char* format, ...) {
  char line[1024];
  const int head = std::snprintf(line, sizeof line, "[cuda emulator %d] ", getpid());
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line + head, sizeof line - head, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "%s\n", line);  // one call, so that lines of several threads stay whole
}

}  // namespace cuemu
