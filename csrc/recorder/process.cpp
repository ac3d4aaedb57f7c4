#include "recorder/process.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace pycomms::recorder {

uint64_t started_ticks(int pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "re"), fclose);
  if (!file) return 0;
  char text[2048];
  text[fread(text, 1, sizeof(text) - 1, file.get())] = '\0';
  const char* field = std::strrchr(text, ')');  // the name may hold anything: fields are counted from its end
  for (int i = 2; field != nullptr && i < 22; ++i) field = std::strchr(field + 1, ' ');
  return field != nullptr ? std::strtoull(field + 1, nullptr, 10) : 0;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

}  // namespace pycomms::recorder
