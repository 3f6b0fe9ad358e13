#pragma once
// What a template can call: filters, tests, methods of strings and dicts, and global functions.
#include "models/text/jinja/arguments.hpp"

namespace millrace::jinja {

// The first argument is what stands before the filter or the test.
using Builtin = Value(Arguments& arguments);

Builtin* find_filter(std::string_view name);  // null: unknown
Builtin* find_test(std::string_view name);

// object.name of a string, list or dict, bound to it. Undefined if Python's type has no such method; calling one that
// Python has and we have not fails.
Value method_of(const Value& object, const std::string& name);

// Whether Python's str, dict or list has a method of this name.
bool is_method_name(std::string_view name);

// object[key], and object.name where that is no method.
Value item_of(const Value& object, const Value& key);

// range, namespace, dict, raise_exception, strftime_now.
const std::vector<std::pair<std::string, Value>>& global_functions();

}  // namespace millrace::jinja
