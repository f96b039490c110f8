//! Dates of the Gregorian calendar, in UTC.

/// The Gregorian date of a day counted from 1970-01-01, as (year, month, day).
///
/// Hinnant's `civil_from_days`: years are counted from March, so that the leap day is the last
/// day of a year, in eras of 400 years or 146,097 days.
#[must_use]
pub fn civil_from_days(days: u64) -> (u64, u64, u64) {
    // 719,468 days lie between 0000-03-01 and 1970-01-01
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// The day of the week of a day counted from 1970-01-01, which was a Thursday; 0 is Sunday.
#[must_use]
pub fn weekday(days: u64) -> u64 {
    (days + 4) % 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (10_957, (2000, 1, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (19_782, (2024, 2, 29)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(civil_from_days(days), date, "{days}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_day_before() {
        let mut before = civil_from_days(0);
        for day in 1..146_097 {
            let (year, month, date) = civil_from_days(day);
            let next = match before {
                _ if (year, month, date) == (before.0, before.1, before.2 + 1) => true,
                (y, 12, 31) => (year, month, date) == (y + 1, 1, 1),
                (y, m, d) => (year, month, date) == (y, m + 1, 1) && d >= 28,
            };
            assert!(next, "day {day}: {year}-{month}-{date} after {before:?}");
            before = (year, month, date);
        }
    }

    #[test]
    fn weekdays_go_around() {
        // 2026-11-24 was a Tuesday
        assert_eq!((weekday(0), weekday(3), weekday(20_781)), (4, 0, 2));
        assert_eq!(civil_from_days(20_781), (2026, 11, 24));
    }
}
