// The smallest test frame that serves us: TEST(name) { CHECK(...); CHECK_EQ(got, want); } in any number of files, and
// CHECK_MAIN() in one of them. A failed check reports and ends its test. CHECK and friends belong to the test's own thread
// and to functions it calls. Each test has a deadline: a hang ends the program with the test's name.
// Options: --filter SUBSTRING (of the name), --list.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace check {

// Of one test: three times what the longest takes with a race detector on a machine that others keep busy.
inline constexpr unsigned kDeadlineSeconds = 180;

// With the race detector whatever a single thread does is only slow: tests of nothing else make do with fewer cases.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kDetectsRaces = true;
#else
inline constexpr bool kDetectsRaces = false;
#endif

// A sanitizer's own locks may be held by another thread when the process forks; in the child they stay so for ever: ASan's at
// the first refill of its allocator (GCC 12), TSan's at the first thread.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kForksBesideThreads = false;
#else
inline constexpr bool kForksBesideThreads = true;
#endif

struct Test {
  const char* name;
  void (*body)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Registration {
  Registration(const char* name, void (*body)()) { tests().push_back({name, body}); }
};

struct Failure {
  std::string text;
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& text) {
  throw Failure{std::string(file) + ":" + std::to_string(line) + ": " + text};
}

template <class T>
std::string show(const T& value) {
  std::ostringstream out;
  if constexpr (std::is_same_v<T, std::nullptr_t>) {
    out << "nullptr";
  } else if constexpr (std::is_same_v<T, bool>) {
    out << (value ? "true" : "false");
  } else if constexpr (std::is_enum_v<T>) {
    out << +static_cast<std::underlying_type_t<T>>(value);
  } else if constexpr (std::is_integral_v<T>) {
    out << +value;
  } else if constexpr (requires { out << value; }) {
    out.precision(17);
    out << value;
  } else {
    out << "(" << sizeof value << " bytes)";
  }
  return out.str();
}

template <class T>
inline constexpr bool kNumber =
    std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> && !std::is_same_v<T, wchar_t>;

// Integers of different signs compare by value.
template <class A, class B>
bool equal(const A& a, const B& b) {
  if constexpr (kNumber<A> && kNumber<B>) {
    return std::cmp_equal(a, b);
  } else {
    return a == b;
  }
}

template <class A, class B>
bool at_most(const A& a, const B& b) {
  if constexpr (kNumber<A> && kNumber<B>) {
    return std::cmp_less_equal(a, b);
  } else {
    return a <= b;
  }
}

template <class A, class B>
void require(bool holds, const A& a, const B& b, const char* text, const char* file, int line) {
  if (!holds) fail(file, line, std::string(text) + ": left is " + show(a) + ", right is " + show(b));
}

// For the signal handler: only what is safe there.
inline const char* volatile running = "";

inline void on_deadline(int) {
  const auto say = [](const char* text) { return write(STDERR_FILENO, text, std::strlen(text)) >= 0; };
  const bool said = say("FAILED ") && say(running) && say(": its deadline has passed\n");
  _exit(said ? 124 : 125);
}

// The error of a test, empty when it passed.
inline std::string run(const Test& test) {
  try {
    test.body();
  } catch (const Failure& failure) {
    return failure.text;
  } catch (const std::exception& error) {
    return std::string("exception: ") + error.what();
  }
  return {};
}

inline int main(int argc, char** argv) {
  const char* filter = "";
  bool list = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--list") == 0) {
      list = true;
    } else if (std::strcmp(argv[i], "--filter") == 0 && i + 1 < argc) {
      filter = argv[++i];
    } else {
      std::fprintf(stderr, "usage: %s [--list] [--filter SUBSTRING]\n", argv[0]);
      return 2;
    }
  }
  signal(SIGALRM, on_deadline);
  int passed = 0, failed = 0;
  for (const Test& test : tests()) {
    if (!std::strstr(test.name, filter)) continue;
    if (list) {
      std::puts(test.name);
      continue;
    }
    running = test.name;
    const auto start = std::chrono::steady_clock::now();
    alarm(kDeadlineSeconds);
    const std::string error = run(test);
    alarm(0);
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
    if (error.empty()) {
      ++passed;
      std::printf("passed %s (%lld ms)\n", test.name, static_cast<long long>(spent.count()));
    } else {
      ++failed;
      std::printf("FAILED %s\n  %s\n", test.name, error.c_str());
    }
    std::fflush(stdout);
  }
  if (list) return 0;
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed || !passed;  // a filter that matches nothing is a mistake
}

}  // namespace check

#define TEST(name)                                                        \
  static void test_##name();                                              \
  static const ::check::Registration register_##name{#name, test_##name}; \
  static void test_##name()

// For a test with its own reason, in words.
#define CHECK_FAIL(text) ::check::fail(__FILE__, __LINE__, text)

#define CHECK(condition)                      \
  do {                                        \
    if (!(condition)) CHECK_FAIL(#condition); \
  } while (0)

// Each side is evaluated once.
#define CHECK_RELATION(left, right, relation, text)                                                         \
  do {                                                                                                      \
    const auto& check_left = (left);                                                                        \
    const auto& check_right = (right);                                                                      \
    ::check::require(relation(check_left, check_right), check_left, check_right, text, __FILE__, __LINE__); \
  } while (0)

#define CHECK_EQ(left, right) CHECK_RELATION(left, right, ::check::equal, #left " == " #right)
#define CHECK_NE(left, right) CHECK_RELATION(left, right, !::check::equal, #left " != " #right)
#define CHECK_LE(left, right) CHECK_RELATION(left, right, ::check::at_most, #left " <= " #right)
#define CHECK_STREQ(left, right) CHECK_EQ(std::string(left), std::string(right))

#define CHECK_MAIN() \
  int main(int argc, char** argv) { return ::check::main(argc, argv); }
