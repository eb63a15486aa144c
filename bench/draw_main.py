"""What programs that draw compute-bench's JSON as a picture and print it as a Markdown table share."""
import json
import os
import sys


def run(usage, drawing, headings, table_rows, nothing, status):
    """Reads argv[1], writes drawing(bench) to argv[2] and prints the table; returns the exit status.
    `nothing` with `status` is what to say where there is nothing to draw; {} stands for the file."""
    program = os.path.basename(sys.argv[0])
    if len(sys.argv) != 3 or sys.argv[1] in ("-h", "--help"):
        print(usage, file=sys.stdout if "--help" in sys.argv else sys.stderr)
        return 0 if "--help" in sys.argv else 2
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            bench = json.load(file)
        picture = drawing(bench)
        if not picture:
            print(f"{program}: {nothing.format(sys.argv[1])}", file=sys.stderr)
            return status
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            file.write(picture + "\n")
    except (OSError, ValueError, KeyError) as error:
        print(f"{program}: {error!r}", file=sys.stderr)
        return 1
    print("| " + " | ".join(headings) + " |")
    print("|" + "---|" * len(headings))
    for row in table_rows(bench):
        print("| " + " | ".join(row) + " |")
    return 0
