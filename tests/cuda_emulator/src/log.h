// One line to stderr, with our name in front. Any thread.
#pragma once

namespace cuemu {

[[gnu::format(printf, 1, 2)]] void log(const char* format, ...);

}  // namespace cuemu
