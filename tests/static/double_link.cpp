#include "all_headers.hpp"

int second_translation_unit() { return b10::version_major; }
