"""Writes days.txt: when the days around each change of a zone's clocks begin, by Python's zoneinfo.

    python3 days.py > days.txt

A day begins at the first instant at which the clocks of the zone show its midnight or more. For each zone of
zone1970.tab there is a line with the days between YEARS whose beginning or length a change of the clocks has
moved: the date, when it begins in seconds since 1970, and its length in seconds. A day that the zone has
skipped has the length 0.
"""

import datetime as dt
import platform
import sys
import zoneinfo

YEARS = (2015, 2025)
# Zones that have done what is rare, and when: days skipped and repeated in part, midnights that were skipped
# or came twice, half hours.
RARE = {
    "Pacific/Apia": (2010, 2025), "Pacific/Kwajalein": (1993, 1995), "Pacific/Kiritimati": (1994, 1996),
    "America/St_Johns": (2004, 2025), "America/Sao_Paulo": (2005, 2025), "Asia/Beirut": (2005, 2025),
    "Africa/Cairo": (2005, 2025), "Asia/Pyongyang": (2014, 2025), "America/Caracas": (2006, 2025),
    "Australia/Lord_Howe": (2005, 2025), "Asia/Gaza": (2005, 2025), "America/Havana": (2005, 2025),
    "Antarctica/Casey": (2008, 2025), "Africa/Casablanca": (2005, 2025),
}
EPOCH = dt.datetime(1970, 1, 1)


def shown(zone, at):
    """What the clocks show, in seconds as if it were UTC."""
    moment = dt.datetime.fromtimestamp(at, dt.timezone.utc).astimezone(zone)
    return at + int(moment.utcoffset().total_seconds())


def changes(zone, first, last):
    """The instants at which the clocks of a zone are changed."""
    step = 6 * 3600
    at = first
    while at < last:
        before, after = shown(zone, at) - at, shown(zone, at + step) - at - step
        if before != after:
            low, high = at, at + step
            while high - low > 1:
                middle = (low + high) // 2
                if shown(zone, middle) - middle == before:
                    low = middle
                else:
                    high = middle
            yield high
        at += step


def beginning(zone, date, near):
    """The first instant at which the clocks show the midnight of a date or more."""
    midnight = int((dt.datetime.combine(date, dt.time()) - EPOCH).total_seconds())
    possible = set(near)
    for change in list(near) + [midnight]:
        for at in (change - 172800, change - 1, change, change + 172800):
            possible.add(midnight - (shown(zone, at) - at))
    return min(at for at in possible if abs(at - midnight) < 172800 and shown(zone, at) >= midnight)


def main():
    print("# Python %s zoneinfo, tz database %s" % (platform.python_version(), version()))
    names = sorted({line.split("\t")[2].strip() for line in open("/usr/share/zoneinfo/zone1970.tab") if line[0] != "#"} | set(RARE))
    for name in names:
        zone, years = zoneinfo.ZoneInfo(name), RARE.get(name, YEARS)
        first, last = (int(dt.datetime(y, 1, 1, tzinfo=dt.timezone.utc).timestamp()) for y in years)
        all_changes, days = list(changes(zone, first, last)), {}
        for change in all_changes:
            near = [other for other in all_changes if abs(other - change) < 5 * 86400]
            middle = (EPOCH + dt.timedelta(seconds=shown(zone, change))).date()
            for offset in (-2, -1, 0, 1):
                date = middle + dt.timedelta(days=offset)
                begin = beginning(zone, date, near)
                length = beginning(zone, date + dt.timedelta(days=1), near) - begin
                if length != 86400 or offset in (0, 1):
                    days[date] = "%s:%d:%d" % (date.isoformat(), begin, length)
        if days:
            print(name, *(days[date] for date in sorted(days)))


def version():
    with open("/usr/share/zoneinfo/tzdata.zi") as file:
        return file.readline().split()[-1]


if __name__ == "__main__":
    sys.exit(main())
