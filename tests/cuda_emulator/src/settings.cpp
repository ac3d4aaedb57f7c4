#include "settings.h"

#include <cstdlib>

#include "log.h"

namespace cuemu {
namespace {

long number(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end == '\0' && value >= 0) return value;
  log("%s=%s is not a number: %ld is used", name, text, otherwise);
  return otherwise;
}

Settings read() {
  constexpr long kMostDevices = 64;
  const long devices = number("CUEMU_DEVICES", 2);
  return {
      .devices = static_cast<int>(devices > kMostDevices ? kMostDevices : devices),
      .memory_bytes = static_cast<size_t>(number("CUEMU_MEMORY_MB", 8192)) << 20,
      .poison_bytes = static_cast<size_t>(number("CUEMU_POISON_KB", 2048)) << 10,
      .patience = std::chrono::seconds(number("CUEMU_PATIENCE_S", 120)),
      .delays = {std::chrono::microseconds(number("CUEMU_DELAY_US", 0)),
                 std::chrono::microseconds(number("CUEMU_DELAY_RANDOM_US", 0)),
                 static_cast<uint64_t>(number("CUEMU_DELAY_SEED", 0))},
      .trace = number("CUEMU_TRACE", 0) != 0,
  };
}

}  // namespace

const Settings& settings() {
  static const Settings read_once = read();
  return read_once;
}

}  // namespace cuemu
