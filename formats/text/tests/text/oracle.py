"""Prints for each line of the file named by the first argument what Python's json.loads reads: the offset, and the text
in hexadecimal of UTF-8 or `error`. The second argument is the path of the field."""
import json
import sys

sys.set_int_max_str_digits(0)


def lookup(value, path):
    if "." in path and path in value:
        return value[path]
    for part in path.split("."):
        if not isinstance(value, dict):
            raise KeyError(part)
        value = value[part]
    return value


offset = 0
with open(sys.argv[1], "rb") as file:
    for line in file:
        at, offset = offset, offset + len(line)
        if at == 0 and line.startswith(b"\xef\xbb\xbf"):
            line = line[3:]
        if not line.strip(b" \t\r\n"):
            continue
        try:
            value = json.loads(line.decode("utf-8"))
            if not isinstance(value, dict):
                raise TypeError("no object")
            text = lookup(value, sys.argv[2])
            if not isinstance(text, str):
                raise TypeError("no string")
            said = text.encode("utf-8").hex()
        except (ValueError, TypeError, KeyError) as e:
            said = "error"
        print(f"{at:012} {said}")
